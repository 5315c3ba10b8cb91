package grpcapi

import (
	"context"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine/infer"
	"nereid/engine/restrict"
)

// RestrictedPrefix stands before the keys of --grpc-restricted-protocol in the metadata.
const RestrictedPrefix = "triton-grpc-protocol-"

// methodGroup returns the group of a method, by its full name.
func methodGroup(method string) restrict.Group {
	switch name := path.Base(method); name {
	case "ServerLive", "ServerReady", "ModelReady", "Check":
		return restrict.Health
	case "ServerMetadata", "ModelMetadata":
		return restrict.Metadata
	case "ModelInfer", "ModelStreamInfer":
		return restrict.Inference
	case "ModelConfig":
		return restrict.ModelConfig
	case "ModelStatistics":
		return restrict.Statistics
	case "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload":
		return restrict.ModelRepository
	case "TraceSetting":
		return restrict.Trace
	case "LogSettings":
		return restrict.Logging
	default:
		if strings.Contains(name, "SharedMemory") {
			return restrict.SharedMemory
		}
	}
	return restrict.Unknown
}

// checkRestricted refuses a call of a restricted group without the metadata that opens it.
func (s *Server) checkRestricted(ctx context.Context, group restrict.Group) error {
	name := s.restrict.Header(group)
	if name == "" {
		return nil
	}
	v := metadata.ValueFromIncomingContext(ctx, name)
	if len(v) == 1 && s.restrict.Opens(group, v[0]) {
		return nil
	}
	return grpcstatus.Error(codes.Unavailable, "This protocol is restricted, expecting header '"+name+"'")
}

// forward makes parameters of the metadata whose names the pattern of Options.ForwardMetadata finds itself in. A
// parameter of the same name in the message gives way. Errors: InvalidArg for a name that the protocol keeps for itself.
func (s *Server) forward(ctx context.Context, r *infer.Request) error {
	if s.forwards == nil {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		if transportName(name) || !s.forwards.MatchString(name) {
			continue
		}
		for _, v := range values {
			if err := r.SetForwarded(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// transportName reports whether metadata of a name belongs to the transport, which keeps it to itself in Triton.
func transportName(name string) bool {
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-") || name == "content-type" || name == "te"
}
