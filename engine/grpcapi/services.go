package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	inferenceService = "inference.GRPCInferenceService"
	healthService    = "grpc.health.v1.Health"
)

// services returns the descriptions of the services. Unary calls are described as streams of one message each way, so
// that a handler receives the message itself, without a copy.
func (s *Server) services() []*grpc.ServiceDesc {
	control, memory := controlService{s.engine}, sharedMemoryService{s.regions}
	d := func(name string, h handler) grpc.StreamDesc {
		return grpc.StreamDesc{StreamName: name, Handler: s.guard("/"+inferenceService+"/"+name, h)}
	}
	inference := &grpc.ServiceDesc{
		ServiceName: inferenceService,
		HandlerType: (*any)(nil),
		Metadata:    "grpc_service.proto",
		Streams: []grpc.StreamDesc{
			d("ModelInfer", s.modelInfer),
			d("ServerLive", unary(control.serverLive)),
			d("ServerReady", unary(control.serverReady)),
			d("ModelReady", unary(control.modelReady)),
			d("ServerMetadata", unary(control.serverMetadata)),
			d("ModelMetadata", unary(control.modelMetadata)),
			d("ModelConfig", unary(control.modelConfig)),
			d("ModelStatistics", unary(control.modelStatistics)),
			d("RepositoryIndex", unary(control.repositoryIndex)),
			d("RepositoryModelLoad", unary(control.repositoryModelLoad)),
			d("RepositoryModelUnload", unary(control.repositoryModelUnload)),
			d("SystemSharedMemoryStatus", unary(memory.systemStatus)),
			d("SystemSharedMemoryRegister", unary(memory.systemRegister)),
			d("SystemSharedMemoryUnregister", unary(memory.systemUnregister)),
			d("CudaSharedMemoryStatus", unary(memory.cudaStatus)),
			d("CudaSharedMemoryRegister", unary(memory.cudaRegister)),
			d("CudaSharedMemoryUnregister", unary(memory.cudaUnregister)),
			d("TraceSetting", unary(s.traceSetting)),
			d("LogSettings", unary(s.logSettings)),
		},
	}
	stream := d("ModelStreamInfer", s.modelStreamInfer)
	stream.ServerStreams, stream.ClientStreams = true, true
	inference.Streams = append(inference.Streams, stream)

	health := &grpc.ServiceDesc{
		ServiceName: healthService,
		HandlerType: (*any)(nil),
		Metadata:    "grpc/health/v1/health.proto",
		Streams: []grpc.StreamDesc{
			{StreamName: "Check", Handler: s.guard("/"+healthService+"/Check", unary(control.healthCheck))},
		},
	}
	return []*grpc.ServiceDesc{inference, health}
}

// request is a pointer to a generated message.
type request[T any] interface {
	*T
	proto.Message
}

// unary makes a handler of a function on generated messages.
func unary[T any, P request[T], R proto.Message](f func(context.Context, P) (R, error)) handler {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		in := incoming{msg: P(new(T))}
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		if in.err != nil {
			return wireError(in.err)
		}
		out, err := f(ctx, in.msg.(P))
		if err != nil {
			return wireError(err)
		}
		return stream.SendMsg(out)
	}
}
