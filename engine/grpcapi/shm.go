package grpcapi

import (
	"context"

	pb "nereid/engine/inferencepb"
	"nereid/engine/shm"
	"nereid/engine/system/socket"
)

// sharedMemoryService serves the calls that register and unregister shared memory.
type sharedMemoryService struct{ regions *shm.Registry }

func (s sharedMemoryService) systemStatus(
	_ context.Context, in *pb.SystemSharedMemoryStatusRequest,
) (*pb.SystemSharedMemoryStatusResponse, error) {
	list, err := s.regions.Status(shm.System, in.GetName())
	if err != nil {
		return nil, err
	}
	regions := make(map[string]*pb.SystemSharedMemoryStatusResponse_RegionStatus, len(list))
	for _, r := range list {
		regions[r.Name] = &pb.SystemSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, Key: r.Key, Offset: r.Offset, ByteSize: r.ByteSize,
		}
	}
	return &pb.SystemSharedMemoryStatusResponse{Regions: regions}, nil
}

func (s sharedMemoryService) systemRegister(
	ctx context.Context, in *pb.SystemSharedMemoryRegisterRequest,
) (*pb.SystemSharedMemoryRegisterResponse, error) {
	return &pb.SystemSharedMemoryRegisterResponse{},
		s.regions.RegisterSystem(in.GetName(), in.GetKey(), in.GetOffset(), in.GetByteSize(), userOf(ctx))
}

// userOf returns the user of a call's client.
func userOf(ctx context.Context) shm.Client {
	return func() (int, bool) { return socket.PeerUser(socket.FromContext(ctx)) }
}

func (s sharedMemoryService) systemUnregister(
	_ context.Context, in *pb.SystemSharedMemoryUnregisterRequest,
) (*pb.SystemSharedMemoryUnregisterResponse, error) {
	return &pb.SystemSharedMemoryUnregisterResponse{}, s.regions.Unregister(shm.System, in.GetName())
}

func (s sharedMemoryService) cudaStatus(
	_ context.Context, in *pb.CudaSharedMemoryStatusRequest,
) (*pb.CudaSharedMemoryStatusResponse, error) {
	list, err := s.regions.Status(shm.CUDA, in.GetName())
	if err != nil {
		return nil, err
	}
	regions := make(map[string]*pb.CudaSharedMemoryStatusResponse_RegionStatus, len(list))
	for _, r := range list {
		regions[r.Name] = &pb.CudaSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, DeviceId: uint64(r.DeviceID), ByteSize: r.ByteSize,
		}
	}
	return &pb.CudaSharedMemoryStatusResponse{Regions: regions}, nil
}

func (s sharedMemoryService) cudaRegister(
	_ context.Context, in *pb.CudaSharedMemoryRegisterRequest,
) (*pb.CudaSharedMemoryRegisterResponse, error) {
	return &pb.CudaSharedMemoryRegisterResponse{},
		s.regions.RegisterCUDA(in.GetName(), in.GetRawHandle(), in.GetDeviceId(), in.GetByteSize())
}

func (s sharedMemoryService) cudaUnregister(
	_ context.Context, in *pb.CudaSharedMemoryUnregisterRequest,
) (*pb.CudaSharedMemoryUnregisterResponse, error) {
	return &pb.CudaSharedMemoryUnregisterResponse{}, s.regions.Unregister(shm.CUDA, in.GetName())
}
