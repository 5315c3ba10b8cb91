package lifecycle

import (
	"log/slog"
	"time"

	"nereid/engine/agent"
	"nereid/engine/backend"
	"nereid/engine/cache"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/instance"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/residency"
	"nereid/engine/sched"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// Options say which models are served, and with what.
type Options struct {
	// Repositories are folders of model folders. None: nothing can be loaded.
	Repositories []string
	// Preferred is one of Repositories; see repo.Options.Preferred.
	Preferred string
	// Yielding is one of Repositories; see repo.Options.Yielding.
	Yielding string
	// Remotes holds those of Repositories that are not folders of this machine, by their names there. The caller closes
	// them, before the Manager, so that downloads under way end.
	Remotes map[string]repo.Remote
	// Namespaces lets repositories have models of the same name: a request whose name several models have is refused,
	// and an ensemble's steps prefer the models of the same repository (--model-namespacing).
	Namespaces bool
	// ConfigName selects configs/<name>.pbtxt over config.pbtxt where it exists (--model-config-name).
	ConfigName string
	Backends   []backend.Backend
	Libraries  Libraries     // finds backends that come as libraries; nil: there are none
	Agents     []agent.Agent // repository agents
	// DisableAutoComplete refuses models without a complete configuration (--disable-auto-complete-config).
	DisableAutoComplete bool
	// DefaultMaxBatchSize is for models that can batch and do not set max_batch_size. nil: 4; 0 turns batching off for
	// them.
	DefaultMaxBatchSize *int
	// DefaultMaxBatchSizes override DefaultMaxBatchSize for single backends, by name.
	DefaultMaxBatchSizes map[string]int
	// LoadThreads is how many models load at once (--model-load-thread-count). 0: 4.
	LoadThreads int
	// LoadTimeout is how long a load of a model may take, without the wait for its turn (--model-load-timeout-secs).
	// Then it is cancelled, which backends in processes heed. 0: there is no limit.
	LoadTimeout time.Duration
	// LoadRetries is how often a version that fails to load is tried again (--model-load-retry-count).
	LoadRetries int
	// Settle is how long the files of a changed model must stay unchanged before polling loads it. 0: 1 s.
	Settle time.Duration
	// ResourcesFirst makes ReloadResources the policy of models that do not name one.
	ResourcesFirst bool
	// Residency limits the memory of the models: what does not fit is loaded by its first request.
	Residency residency.Budget
	// OverrideFolder is where the files of load requests are stored. "": the system's temporary folder.
	OverrideFolder string
	// Cache is the response cache of the models that ask for one. nil: none.
	Cache cache.Store
	// RateLimiter makes instances wait for the resources that their groups name (--rate-limit). nil: they do not wait.
	RateLimiter *instance.Limiter
	// Machine has the GPUs that models may use. nil: none.
	Machine *device.Machine
	// HostPolicies say by name which cores and which NUMA node's memory the instances of groups of that host_policy
	// use. Those named "cpu", "model" and "gpu_<id>" hold for groups of that kind that name none (--host-policy).
	HostPolicies map[string]affinity.Policy
	// GPULimits are the shares of GPUs' memory, by their number, above which no model is loaded onto them
	// (--model-load-gpu-limit).
	GPULimits map[int]float64
	// RequestMemory counts the copies of requests for candidates. nil: nobody does.
	RequestMemory *tensor.Budget
	// Probed names the model whose versions keep a golden request for model.Probe. "": none.
	Probed string
	Log    *slog.Logger
	Events Events
}

// Libraries finds backends that come as libraries of Triton's. It is safe for concurrent use.
type Libraries interface {
	// OfModel returns the backend whose library is in the model's folder or in that of its version; nil: there is none.
	// It takes precedence over Options.Backends.
	OfModel(cfg *inferencepb.ModelConfig, modelFolder, versionFolder string) backend.Backend
	// Of returns a backend that all models can use; nil: there is none of the name. Options.Backends take precedence.
	Of(cfg *inferencepb.ModelConfig) backend.Backend
	// Strategy starts the batching strategy of a model, which the caller closes; nil: it has none.
	Strategy(s backend.Spec) (sched.Strategy, error)
}

// MaxBatchSizeOf returns what models of a backend get that can batch and do not set max_batch_size.
func (o *Options) MaxBatchSizeOf(backend string) int {
	if n, ok := o.DefaultMaxBatchSizes[backend]; ok {
		return n
	}
	if o.DefaultMaxBatchSize != nil {
		return *o.DefaultMaxBatchSize
	}
	return modelconfig.DefaultMaxBatchSize
}
