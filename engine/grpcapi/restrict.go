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

// RestrictedPrefix is put before the keys of --grpc-restricted-protocol in the metadata.
const RestrictedPrefix = "triton-grpc-protocol-"

// methodGroup returns the group of the method with a full name.
func methodGroup(method string) restrict.Group {
	switch path.Base(method) {
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
	}
	if strings.Contains(path.Base(method), "SharedMemory") {
		return restrict.SharedMemory
	}
	return restrict.Unknown
}

// checkRestricted refuses a call of a restricted group that lacks the metadata for it.
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

// forward makes parameters of the metadata whose names match Options.ForwardMetadata. They replace parameters of the
// same name. Errors: InvalidArg for a reserved name.
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

// transportName reports whether metadata of a name belongs to the transport. Triton does not forward it.
func transportName(name string) bool {
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-") || name == "content-type" || name == "te"
}
