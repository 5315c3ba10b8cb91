package console

import (
	"context"
	"time"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
)

// Engine is what the console needs of the engine; see *engine.Engine for the contracts.
type Engine interface {
	Models() []lifecycle.ModelStatus
	Model(name string) (lifecycle.ModelStatus, bool)
	Reload(ctx context.Context, name string) error
	ReloadWith(ctx context.Context, name, config string) error
	ReloadVersion(ctx context.Context, name string, version int64) error
	Remove(name string)
	RemoveVersion(name string, version int64) error
	Pin(name string, pinned *bool)
	Residency() lifecycle.ResidencyStatus
	Infer(ctx context.Context, r *infer.Request) error
	Live() bool
	Ready() bool
	Mode() engine.ControlMode
	Started() time.Time
	ServerMetadata() *inferencepb.ServerMetadataResponse
}

var _ Engine = (*engine.Engine)(nil)
