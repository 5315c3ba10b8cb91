package grpcapi

import (
	"context"
	"strconv"
	"strings"

	"nereid/engine"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

func (s *Server) serverLive(context.Context, *inferencepb.ServerLiveRequest) (*inferencepb.ServerLiveResponse, error) {
	return &inferencepb.ServerLiveResponse{Live: s.engine.Live()}, nil
}

func (s *Server) serverReady(context.Context, *inferencepb.ServerReadyRequest) (*inferencepb.ServerReadyResponse, error) {
	return &inferencepb.ServerReadyResponse{Ready: s.engine.Ready()}, nil
}

// modelReady answers "not ready" for a model that nobody knows, as Triton does.
func (s *Server) modelReady(_ context.Context, in *inferencepb.ModelReadyRequest) (*inferencepb.ModelReadyResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	ready, err := s.engine.ModelReady(in.GetName(), version)
	if err != nil && status.CodeOf(err) != status.NotFound {
		return nil, err
	}
	return &inferencepb.ModelReadyResponse{Ready: ready && err == nil}, nil
}

func (s *Server) serverMetadata(context.Context, *inferencepb.ServerMetadataRequest) (*inferencepb.ServerMetadataResponse, error) {
	return s.engine.ServerMetadata(), nil
}

func (s *Server) modelMetadata(_ context.Context, in *inferencepb.ModelMetadataRequest) (*inferencepb.ModelMetadataResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	return s.engine.ModelMetadata(in.GetName(), version)
}

func (s *Server) modelConfig(_ context.Context, in *inferencepb.ModelConfigRequest) (*inferencepb.ModelConfigResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	config, err := s.engine.ModelConfig(in.GetName(), version)
	if err != nil {
		return nil, err
	}
	return &inferencepb.ModelConfigResponse{Config: config}, nil
}

func (s *Server) modelStatistics(_ context.Context, in *inferencepb.ModelStatisticsRequest) (*inferencepb.ModelStatisticsResponse, error) {
	version, err := parseVersion(in.GetVersion())
	if err != nil {
		return nil, err
	}
	return s.engine.ModelStatistics(in.GetName(), version)
}

// oneRepository refuses a request that names a repository: models are known by their names alone.
func oneRepository(name string) error {
	if name != "" {
		return status.New(status.Unsupported, "'repository_name' specification is not supported")
	}
	return nil
}

func (s *Server) repositoryIndex(_ context.Context, in *inferencepb.RepositoryIndexRequest) (*inferencepb.RepositoryIndexResponse, error) {
	if err := oneRepository(in.GetRepositoryName()); err != nil {
		return nil, err
	}
	return &inferencepb.RepositoryIndexResponse{Models: s.engine.RepositoryIndex(in.GetReady())}, nil
}

func (s *Server) repositoryModelLoad(ctx context.Context, in *inferencepb.RepositoryModelLoadRequest) (*inferencepb.RepositoryModelLoadResponse, error) {
	if err := oneRepository(in.GetRepositoryName()); err != nil {
		return nil, err
	}
	p, err := loadParameters(in.GetParameters())
	if err != nil {
		return nil, err
	}
	// A load goes on when its client gives up, as in Triton: who comes back finds the model.
	if err := s.engine.LoadModel(context.WithoutCancel(ctx), in.GetModelName(), p); err != nil {
		return nil, err
	}
	return &inferencepb.RepositoryModelLoadResponse{}, nil
}

// loadParameters reads "config" (JSON) and "file:<path>" (content).
func loadParameters(in map[string]*inferencepb.ModelRepositoryParameter) (engine.LoadParameters, error) {
	var p engine.LoadParameters
	for name, v := range in {
		switch {
		case name == "config":
			c, ok := v.GetParameterChoice().(*inferencepb.ModelRepositoryParameter_StringParam)
			if !ok {
				return p, status.New(status.InvalidArg, "invalid value type for load parameter 'config', expected string_param.")
			}
			p.ConfigJSON = c.StringParam
		case strings.HasPrefix(name, "file:"):
			c, ok := v.GetParameterChoice().(*inferencepb.ModelRepositoryParameter_BytesParam)
			if !ok {
				return p, status.Errorf(status.InvalidArg, "invalid value type for load parameter '%s', expected bytes_param.", name)
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
			return p, status.Errorf(status.InvalidArg, "unrecognized load parameter '%s'; known are 'config', 'file:<path>' and 'version'", name)
		}
	}
	return p, nil
}

// versionParameter of load and unload names the one version that is meant. It is ours.
const versionParameter = "version"

// oneVersion reads its value: a positive int64_param, or its digits as a string_param.
func oneVersion(p *inferencepb.ModelRepositoryParameter) (int64, error) {
	var v int64
	switch c := p.GetParameterChoice().(type) {
	case *inferencepb.ModelRepositoryParameter_Int64Param:
		v = c.Int64Param
	case *inferencepb.ModelRepositoryParameter_StringParam:
		v, _ = strconv.ParseInt(c.StringParam, 10, 64) // 0 when it is none
	}
	if v < 1 {
		return 0, status.New(status.InvalidArg, "parameter 'version' must be the number of a version, as int64_param or string_param")
	}
	return v, nil
}

func (s *Server) repositoryModelUnload(ctx context.Context, in *inferencepb.RepositoryModelUnloadRequest) (*inferencepb.RepositoryModelUnloadResponse, error) {
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
			return nil, status.Errorf(status.InvalidArg, "unrecognized unload parameter '%s'; known are 'unload_dependents' and 'version'", name)
		}
		c, ok := v.GetParameterChoice().(*inferencepb.ModelRepositoryParameter_BoolParam)
		if !ok {
			return nil, status.New(status.InvalidArg, "invalid value type for 'unload_dependents' parameter, expected bool_param.")
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
	return &inferencepb.RepositoryModelUnloadResponse{}, nil
}
