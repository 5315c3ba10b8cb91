package httpapi

import (
	"context"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/shm"
)

// Engine is what this package needs of the engine. Errors carry Triton's code and the text that clients see.
type Engine interface {
	Infer(ctx context.Context, r *infer.Request) error
	Live() bool
	Ready() bool
	ServerMetadata() *inferencepb.ServerMetadataResponse
	ModelReady(name string, version int64) (bool, error)
	ModelMetadata(name string, version int64) (*inferencepb.ModelMetadataResponse, error)
	ModelConfig(name string, version int64) (*inferencepb.ModelConfig, error)
	ModelStatistics(name string, version int64) (*inferencepb.ModelStatisticsResponse, error)
	RepositoryIndex(ready bool) []*inferencepb.RepositoryIndexResponse_ModelIndex
	LoadModel(ctx context.Context, name string, p engine.LoadParameters) error
	UnloadModel(ctx context.Context, name string, dependents bool) error
	UnloadVersion(ctx context.Context, name string, version int64) error
	// SharedMemory returns the regions of memory that clients share with the server; nil: they cannot.
	SharedMemory() *shm.Registry
}
