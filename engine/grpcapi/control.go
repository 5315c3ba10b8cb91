package grpcapi

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/health/grpc_health_v1"

	"nereid/engine"
	pb "nereid/engine/inferencepb"
	"nereid/engine/status"
)

// controlService serves the calls about the server and its models.
type controlService struct{ engine Engine }

func (s controlService) serverLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: s.engine.Live()}, nil
}

func (s controlService) serverReady(context.Context, *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	return &pb.ServerReadyResponse{Ready: s.engine.Ready()}, nil
}

// modelReady answers "not ready" for an unknown model, as Triton does.
func (s controlService) modelReady(
	_ context.Context, in *pb.ModelReadyRequest,
) (*pb.ModelReadyResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	ready, err := s.engine.ModelReady(in.GetName(), version)
	if err != nil && status.CodeOf(err) != status.NotFound {
		return nil, err
	}
	return &pb.ModelReadyResponse{Ready: ready && err == nil}, nil
}

func (s controlService) serverMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	return s.engine.ServerMetadata(), nil
}

func (s controlService) modelMetadata(
	_ context.Context, in *pb.ModelMetadataRequest,
) (*pb.ModelMetadataResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	return s.engine.ModelMetadata(in.GetName(), version)
}

func (s controlService) modelConfig(
	_ context.Context, in *pb.ModelConfigRequest,
) (*pb.ModelConfigResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	config, err := s.engine.ModelConfig(in.GetName(), version)
	if err != nil {
		return nil, err
	}
	return &pb.ModelConfigResponse{Config: config}, nil
}

func (s controlService) modelStatistics(
	_ context.Context, in *pb.ModelStatisticsRequest,
) (*pb.ModelStatisticsResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	return s.engine.ModelStatistics(in.GetName(), version)
}

// oneRepository refuses a request with a repository's name: the names of models are unique in all repositories.
func oneRepository(name string) error {
	if name != "" {
		return status.New(status.Unsupported, "'repository_name' specification is not supported")
	}
	return nil
}

func (s controlService) repositoryIndex(
	_ context.Context, in *pb.RepositoryIndexRequest,
) (*pb.RepositoryIndexResponse, error) {
	if err := oneRepository(in.GetRepositoryName()); err != nil {
		return nil, err
	}
	return &pb.RepositoryIndexResponse{Models: s.engine.RepositoryIndex(in.GetReady())}, nil
}

func (s controlService) repositoryModelLoad(
	ctx context.Context, in *pb.RepositoryModelLoadRequest,
) (*pb.RepositoryModelLoadResponse, error) {
	if err := oneRepository(in.GetRepositoryName()); err != nil {
		return nil, err
	}
	p, err := loadParameters(in.GetParameters())
	if err != nil {
		return nil, err
	}
	// As in Triton, a load continues if its client cancels the call.
	if err := s.engine.LoadModel(context.WithoutCancel(ctx), in.GetModelName(), p); err != nil {
		return nil, err
	}
	return &pb.RepositoryModelLoadResponse{}, nil
}

// loadParameters reads "config" (JSON) and "file:<path>" (content).
func loadParameters(in map[string]*pb.ModelRepositoryParameter) (engine.LoadParameters, error) {
	var p engine.LoadParameters
	for name, v := range in {
		switch {
		case name == "config":
			c, ok := v.GetParameterChoice().(*pb.ModelRepositoryParameter_StringParam)
			if !ok {
				return p, status.New(status.InvalidArg,
					"invalid value type for load parameter 'config', expected string_param.")
			}
			p.ConfigJSON = c.StringParam
		case strings.HasPrefix(name, "file:"):
			c, ok := v.GetParameterChoice().(*pb.ModelRepositoryParameter_BytesParam)
			if !ok {
				return p, status.Errorf(status.InvalidArg,
					"invalid value type for load parameter '%s', expected bytes_param.", name)
			}
			if p.Files == nil {
				p.Files = make(map[string][]byte, len(in))
			}
			p.Files[strings.TrimPrefix(name, "file:")] = c.BytesParam
		case name == versionParameter:
			var err error
			if p.Version, err = oneVersion(v); err != nil {
				return p, err
			}
		default:
			return p, status.Errorf(status.InvalidArg,
				"unrecognized load parameter '%s'; known are 'config', 'file:<path>' and 'version'", name)
		}
	}
	return p, nil
}

// versionParameter of load and unload chooses a single version. Triton does not have it.
const versionParameter = "version"

// oneVersion returns its value, which is a positive int64_param, or its digits in a string_param.
func oneVersion(p *pb.ModelRepositoryParameter) (int64, error) {
	var v int64
	switch c := p.GetParameterChoice().(type) {
	case *pb.ModelRepositoryParameter_Int64Param:
		v = c.Int64Param
	case *pb.ModelRepositoryParameter_StringParam:
		v, _ = strconv.ParseInt(c.StringParam, 10, 64) // 0 if it is not a number
	}
	if v < 1 {
		return 0, status.New(status.InvalidArg,
			"parameter 'version' must be the number of a version, as int64_param or string_param")
	}
	return v, nil
}

func (s controlService) repositoryModelUnload(
	ctx context.Context, in *pb.RepositoryModelUnloadRequest,
) (*pb.RepositoryModelUnloadResponse, error) {
	if err := oneRepository(in.GetRepositoryName()); err != nil {
		return nil, err
	}
	dependents, version := false, int64(0)
	for name, v := range in.GetParameters() {
		if name == versionParameter {
			var err error
			if version, err = oneVersion(v); err != nil {
				return nil, err
			}
			continue
		}
		if name != "unload_dependents" {
			return nil, status.Errorf(status.InvalidArg,
				"unrecognized unload parameter '%s'; known are 'unload_dependents' and 'version'", name)
		}
		c, ok := v.GetParameterChoice().(*pb.ModelRepositoryParameter_BoolParam)
		if !ok {
			return nil, status.New(status.InvalidArg,
				"invalid value type for 'unload_dependents' parameter, expected bool_param.")
		}
		dependents = c.BoolParam
	}
	var err error
	switch {
	case dependents && version != 0:
		err = status.New(status.InvalidArg, "parameters 'version' and 'unload_dependents' cannot be given together")
	case version != 0:
		err = s.engine.UnloadVersion(ctx, in.GetModelName(), version)
	default:
		err = s.engine.UnloadModel(ctx, in.GetModelName(), dependents)
	}
	if err != nil {
		return nil, err
	}
	return &pb.RepositoryModelUnloadResponse{}, nil
}

func (s controlService) healthCheck(
	context.Context, *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	st := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if s.engine.Ready() {
		st = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: st}, nil
}
