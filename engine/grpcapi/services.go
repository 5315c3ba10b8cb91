package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

const (
	inferenceService = "inference.GRPCInferenceService"
	healthService    = "grpc.health.v1.Health"
)

// services returns the services' descriptions. Unary calls are described as streams of one message each way: grpc-go
// runs both the same way, and a handler of ours then holds the message without a copy or an interceptor between.
func (s *Server) services() []*grpc.ServiceDesc {
	d := func(name string, h handler) grpc.StreamDesc {
		return grpc.StreamDesc{StreamName: name, Handler: s.guard("/"+inferenceService+"/"+name, h)}
	}
	inference := &grpc.ServiceDesc{
		ServiceName: inferenceService,
		HandlerType: (*any)(nil),
		Metadata:    "grpc_service.proto",
		Streams: []grpc.StreamDesc{
			d("ModelInfer", s.modelInfer),
			d("ServerLive", unary(s.serverLive)),
			d("ServerReady", unary(s.serverReady)),
			d("ModelReady", unary(s.modelReady)),
			d("ServerMetadata", unary(s.serverMetadata)),
			d("ModelMetadata", unary(s.modelMetadata)),
			d("ModelConfig", unary(s.modelConfig)),
			d("ModelStatistics", unary(s.modelStatistics)),
			d("RepositoryIndex", unary(s.repositoryIndex)),
			d("RepositoryModelLoad", unary(s.repositoryModelLoad)),
			d("RepositoryModelUnload", unary(s.repositoryModelUnload)),
			d("SystemSharedMemoryStatus", unary(s.systemSharedMemoryStatus)),
			d("SystemSharedMemoryRegister", unary(s.systemSharedMemoryRegister)),
			d("SystemSharedMemoryUnregister", unary(s.systemSharedMemoryUnregister)),
			d("CudaSharedMemoryStatus", unary(s.cudaSharedMemoryStatus)),
			d("CudaSharedMemoryRegister", unary(s.cudaSharedMemoryRegister)),
			d("CudaSharedMemoryUnregister", unary(s.cudaSharedMemoryUnregister)),
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
			{StreamName: "Check", Handler: s.guard("/"+healthService+"/Check", unary(s.healthCheck))},
		},
	}
	return []*grpc.ServiceDesc{inference, health}
}

// request is a generated message made as a value.
type request[T any] interface {
	*T
	proto.Message
}

// unary makes a handler of a function over generated messages.
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

func (s *Server) healthCheck(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	st := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if s.engine.Ready() {
		st = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: st}, nil
}
