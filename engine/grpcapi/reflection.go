package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// serviceNames are the services that the reflection service lists.
type serviceNames map[string]grpc.ServiceInfo

// GetServiceInfo returns the names.
func (o serviceNames) GetServiceInfo() map[string]grpc.ServiceInfo { return o }

// reflection returns the reflection service in both versions that tools use, guarded as all calls are.
func (s *Server) reflection() []*grpc.ServiceDesc {
	names := serviceNames{inferenceService: {}, healthService: {}}
	descs := []*grpc.ServiceDesc{&reflectionv1.ServerReflection_ServiceDesc,
		&reflectionv1alpha.ServerReflection_ServiceDesc}
	for _, d := range descs {
		names[d.ServiceName] = grpc.ServiceInfo{}
	}
	o := reflection.ServerOptions{Services: names, DescriptorResolver: descriptors()}
	servers := []any{reflection.NewServerV1(o), reflection.NewServer(o)}
	guarded := make([]*grpc.ServiceDesc, len(descs))
	for i, d := range descs {
		own := *d
		own.HandlerType = (*any)(nil)
		own.Streams = slices.Clone(d.Streams)
		for j := range own.Streams {
			h := own.Streams[j].Handler
			own.Streams[j].Handler = s.guard("/"+d.ServiceName+"/"+own.Streams[j].StreamName,
				func(_ context.Context, stream grpc.ServerStream) error { return h(servers[i], stream) })
		}
		guarded[i] = &own
	}
	return guarded
}

// descriptors returns the descriptions of the services as they are served: of the health service, only Check.
func descriptors() protodesc.Resolver {
	health := protodesc.ToFileDescriptorProto(grpc_health_v1.File_grpc_health_v1_health_proto)
	for _, s := range health.GetService() {
		s.Method = slices.DeleteFunc(s.Method, func(m *descriptorpb.MethodDescriptorProto) bool {
			return m.GetName() != "Check"
		})
	}
	served := new(protoregistry.Files)
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if f.Path() == health.GetName() {
			if own, err := protodesc.NewFile(health, protoregistry.GlobalFiles); err == nil {
				f = own
			}
		}
		_ = served.RegisterFile(f) // no name is there twice
		return true
	})
	return served
}

// compressAnswers compresses the call's answers if the option is set and the client accepts that.
func (s *Server) compressAnswers(ctx context.Context) {
	if !s.compress {
		return
	}
	if stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ Compress() bool }); ok {
		stream.Compress()
	}
}
