package grpcapi

import (
	"context"

	"nereid/engine/inferencepb"
	"nereid/engine/shm"
)

func (s *Server) systemSharedMemoryStatus(_ context.Context, in *inferencepb.SystemSharedMemoryStatusRequest) (*inferencepb.SystemSharedMemoryStatusResponse, error) {
	list, err := s.regions.Status(shm.System, in.GetName())
	if err != nil {
		return nil, err
	}
	out := &inferencepb.SystemSharedMemoryStatusResponse{Regions: make(map[string]*inferencepb.SystemSharedMemoryStatusResponse_RegionStatus, len(list))}
	for _, r := range list {
		out.Regions[r.Name] = &inferencepb.SystemSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, Key: r.Key, Offset: r.Offset, ByteSize: r.ByteSize,
		}
	}
	return out, nil
}

func (s *Server) systemSharedMemoryRegister(_ context.Context, in *inferencepb.SystemSharedMemoryRegisterRequest) (*inferencepb.SystemSharedMemoryRegisterResponse, error) {
	if err := s.regions.RegisterSystem(in.GetName(), in.GetKey(), in.GetOffset(), in.GetByteSize()); err != nil {
		return nil, err
	}
	return &inferencepb.SystemSharedMemoryRegisterResponse{}, nil
}

func (s *Server) systemSharedMemoryUnregister(_ context.Context, in *inferencepb.SystemSharedMemoryUnregisterRequest) (*inferencepb.SystemSharedMemoryUnregisterResponse, error) {
	if err := s.regions.Unregister(shm.System, in.GetName()); err != nil {
		return nil, err
	}
	return &inferencepb.SystemSharedMemoryUnregisterResponse{}, nil
}

func (s *Server) cudaSharedMemoryStatus(_ context.Context, in *inferencepb.CudaSharedMemoryStatusRequest) (*inferencepb.CudaSharedMemoryStatusResponse, error) {
	list, err := s.regions.Status(shm.CUDA, in.GetName())
	if err != nil {
		return nil, err
	}
	out := &inferencepb.CudaSharedMemoryStatusResponse{Regions: make(map[string]*inferencepb.CudaSharedMemoryStatusResponse_RegionStatus, len(list))}
	for _, r := range list {
		out.Regions[r.Name] = &inferencepb.CudaSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, DeviceId: uint64(r.DeviceID), ByteSize: r.ByteSize,
		}
	}
	return out, nil
}

func (s *Server) cudaSharedMemoryRegister(_ context.Context, in *inferencepb.CudaSharedMemoryRegisterRequest) (*inferencepb.CudaSharedMemoryRegisterResponse, error) {
	if err := s.regions.RegisterCUDA(in.GetName(), in.GetRawHandle(), in.GetDeviceId(), in.GetByteSize()); err != nil {
		return nil, err
	}
	return &inferencepb.CudaSharedMemoryRegisterResponse{}, nil
}

func (s *Server) cudaSharedMemoryUnregister(_ context.Context, in *inferencepb.CudaSharedMemoryUnregisterRequest) (*inferencepb.CudaSharedMemoryUnregisterResponse, error) {
	if err := s.regions.Unregister(shm.CUDA, in.GetName()); err != nil {
		return nil, err
	}
	return &inferencepb.CudaSharedMemoryUnregisterResponse{}, nil
}
