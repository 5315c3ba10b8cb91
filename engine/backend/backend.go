package backend

import (
	"context"
	"log/slog"
	"time"

	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/system/affinity"
	"nereid/engine/tensor"
)

// Backend is an execution engine, made once per process.
type Backend interface {
	// Name is the name in config.pbtxt: "onnxruntime".
	Name() string
	// Traits are the facts that hold for all its models. It may be called before a model is loaded, at any time.
	Traits() Traits
	// Load reads one model version. It may be called from several goroutines at once. Errors: InvalidArg when the file
	// or the configuration is wrong, NotFound when a file is missing, Unsupported, Internal for a runtime's failure;
	// the text names the file.
	Load(ctx context.Context, s Spec) (Model, error)
}

// Spec says what to load.
type Spec struct {
	ModelName string
	Version   int64
	// Config is complete and valid. The backend must not change it.
	Config *inferencepb.ModelConfig
	// ModelFolder is the model's local folder, VersionFolder the version's inside it.
	ModelFolder   string
	VersionFolder string
	Host          Host
	// GPUs are the numbers of the GPUs that models may use, ascending. It is set for ConfigCompleter and GroupPlacer
	// only.
	GPUs []int32
	// Process is called by any goroutine when a process of the model ends or runs again. It must not block. nil: nobody
	// is notified.
	Process func(ProcessEvent)
	// Reported is called by any goroutine with what a library says of its executions and responses; see Traits. nil: it
	// is not counted.
	Reported func(infer.Report)
	Log      *slog.Logger
}

// ProcessEvent says that the process of an instance has ended without being asked to, or that another one runs.
type ProcessEvent struct {
	Instance string
	Err      error // why it ended; nil: another one runs
	Again    bool  // it is started again
}

// Notify returns a function that passes the events of an instance's process on to Process.
func (s *Spec) Notify(instance string) func(why error, again bool) {
	if s.Process == nil {
		return nil
	}
	return func(why error, again bool) { s.Process(ProcessEvent{Instance: instance, Err: why, Again: again}) }
}

// Model is one loaded version.
type Model interface {
	// NewInstance makes an instance at a place. It may be called again later, while others run.
	NewInstance(ctx context.Context, p Placement) (Instance, error)
	// Traits are the facts about this model. They do not change after Load.
	Traits() Traits
	// Close gives the model's memory back. It is called once, after every instance is closed.
	Close() error
}

// Instance executes batches.
type Instance interface {
	// Execute answers every request of the batch: one final response each, by Request.Respond, from any goroutine. It
	// returns when the instance is free again. A request without a final response then gets err, or Internal if err is
	// nil and the model is not decoupled. Execute is called by one goroutine at a time. Each request is held during the
	// call; a backend that responds later retains it. ctx ends when the instance is closed, not with a request: a
	// backend that can stop early watches Batch.AllCancelled. The backend calls MarkInput and MarkOutput on the batch.
	Execute(ctx context.Context, b *infer.Batch) error
	// Close is called once, never during Execute.
	Close() error
}

// Traits are facts that the server takes into account. The zero value is an ordinary backend or model. A backend
// reports those of the first group, a model those of the second; the others are not looked at.
type Traits struct {
	// DefaultInstanceCount is the number of CPU instances of a model that names no instance group (Triton: 2 for ONNX
	// Runtime, 1 for the others). 0: 1.
	DefaultInstanceCount int
	// BatchIO: the backend makes batch inputs and splits outputs by batch outputs, as package batchio computes them.
	BatchIO bool
	// ImplicitState: the backend sets the implicit states of sequences (infer.Request.States).
	ImplicitState bool
	// IgnoresExtras: configurations with batch inputs, batch outputs or implicit states are served, although the
	// backend makes none of them. So does Triton's Python backend.
	IgnoresExtras bool
	// ParallelInstances: NewInstance of one model may be called several times at once (in Triton the backend attribute
	// for parallel loading of instances). Otherwise its instances are made one after the other.
	ParallelInstances bool
	// Scalars: a tensor without dimensions is configured with dims [1], because dims must not be empty. Clients may
	// send an input of dims [1] with the shape [] too; instances get it with the shape [1].
	Scalars bool

	// OwnProcess: the instances run in separate processes; MemoryReporter then reports the memory of these.
	OwnProcess bool
	// RunsInline: Execute only computes and never blocks, so the request's own goroutine may call it.
	RunsInline bool
	// WaitsInline: Execute only waits for a separate process. The request's own goroutine may call it if it has nothing
	// else to do (infer.Request.Client); Execute then returns early when that client is gone.
	WaitsInline bool

	// DeviceBlocking: the instances of the model on one GPU execute one after the other (Triton's execution policy).
	DeviceBlocking bool

	// SaysReady: the model implements Readiness, and not only its type. It is for models in separate processes.
	SaysReady bool

	// ReportsExecutions and ReportsResponses: Spec.Reported is called for each, so the server does not count them
	// itself.
	ReportsExecutions, ReportsResponses bool
}

// Placement is where an instance runs.
type Placement struct {
	// Name is Triton's: model name, group index, instance index: "mlp_0_0"; with the GPU's number on one:
	// "mlp_0_0_gpu1".
	Name string
	// Kind is KIND_CPU, KIND_GPU or KIND_MODEL, never KIND_AUTO.
	Kind inferencepb.ModelInstanceGroup_Kind
	// Device is the GPU's index for KIND_GPU, else 0.
	Device int
	// HostPolicy is the name of the host policy that the instance runs under if there is one of that name: its group's,
	// else "cpu", "model" or "gpu_<id>".
	HostPolicy string
	// Affinity is the host policy's cores and memory. NewInstance and Execute run on a thread with that affinity, and
	// so do the threads that they start from C. If the model has Traits.OwnProcess, the backend starts its processes
	// with it instead.
	Affinity affinity.Policy
	// Passive instances are made and warmed, and take no requests.
	Passive bool
	// Profiles and SecondaryDevices are the group's, for backends that use them.
	Profiles         []string
	SecondaryDevices []*inferencepb.ModelInstanceGroup_SecondaryDevice
	// RateLimiter is what the instance takes while it executes; the core handles it. nil: nothing.
	RateLimiter *inferencepb.ModelRateLimiter
	// SharedThreads says that the model sets no thread count, so that its CPU instances share the process's pool of
	// cores.
	SharedThreads bool
}

// AutoCompleter is a backend that can read a model file's signature without loading the model for execution.
type AutoCompleter interface {
	// Signature describes the model file. s.Config may be incomplete: only its file name settings count.
	Signature(ctx context.Context, s Spec) (*modelconfig.Signature, error)
}

// ConfigCompleter is a backend whose models complete their configuration by their own code.
type ConfigCompleter interface {
	// CompleteConfig changes s.Config, which may be incomplete, to what the model makes of it. It is not called where
	// completing configurations is turned off.
	CompleteConfig(ctx context.Context, s Spec) error
}

// GroupPlacer is a backend that prefers instance groups which only its own code knows.
type GroupPlacer interface {
	// PlaceGroups gives s.Config these groups, where it leaves groups, counts or GPUs open. It is called in place of
	// CompleteConfig where completing configurations is turned off.
	PlaceGroups(ctx context.Context, s Spec) error
}

// ParameterValidator is a backend that can validate a model's parameters before anything is loaded.
type ParameterValidator interface {
	// ValidateParameters returns the parameters of cfg that are refused or not known. cfg may lack everything else. It
	// reads no file.
	ValidateParameters(cfg *inferencepb.ModelConfig) []ParameterRemark
}

// ParameterRemark is a fault of one parameter.
type ParameterRemark struct {
	Name string // the parameter's key
	Text string // what is wrong with it, and what would be right
	// Refused: a model with it is not loaded. Otherwise the parameter has no effect.
	Refused bool
	// Known are the keys that the user may have meant by a parameter without effect.
	Known []string
}

// Health is a Model that may be unhealthy for a while, for example while its process is restarted.
type Health interface {
	// Healthy returns nil if the model takes requests, else why not. It must not block.
	Healthy() error
}

// Readiness is a Model that decides itself whether it is ready, when a client asks the server.
type Readiness interface {
	// Ready returns nil if the model says that it is ready, else why not. It may take until ctx ends.
	Ready(ctx context.Context) error
}

// MemoryReporter is a Model that knows how much memory it takes.
type MemoryReporter interface {
	// MemoryBytes returns the bytes of host memory that the model and its instances hold, -1 if that is not known.
	MemoryBytes() int64
}

// DeviceMemoryReporter is a Model that knows how much memory it takes of each GPU.
type DeviceMemoryReporter interface {
	// DeviceMemoryBytes returns the bytes that the model and its instances hold, by the GPU's number. GPUs whose figure
	// is not known are missing.
	DeviceMemoryBytes() map[int]int64
}

// ProcessReporter is a Model whose instances are processes.
type ProcessReporter interface {
	// Processes describes them, by instance. It must not block.
	Processes() []Process
}

// Process describes the process of a model instance.
type Process struct {
	Instance string
	PID      int       // 0: none runs now
	Since    time.Time // in service since; zero: it is not
	// MemoryBytes is its resident memory, with what is shared with it.
	MemoryBytes int64
	// Ends counts how often it exited unexpectedly and was restarted. Quarantined: it is not restarted any more.
	Ends        int
	Quarantined bool
	// Err says why it takes no requests now; nil: it does.
	Err error
	// Output is the last lines of its standard output and error, Before those of the previous process.
	Output, Before []string
}

// Leaver is a Model that is notified when it leaves service.
type Leaver interface {
	// Leave says that no new request comes, except for steps of ensembles' requests that are under way, and that Close
	// follows when all are answered. It must not block. Work that goes on for longer than the limit may be stopped, so
	// no step begins after it. 0: there is none.
	Leave() (limit time.Duration)
}

// InputMemory is a Model with memory from which inputs can be executed without another copy.
type InputMemory interface {
	// InputBuffer returns n bytes of that memory, or nil. The one reference is the caller's, which may also release it
	// without a request. It is safe for concurrent use.
	InputBuffer(n int) *tensor.Buffer
}

// DeviceMemoryUser is a Model whose instances read inputs directly from a GPU (tensor.Tensor.OnDevice) if a request has
// OnDevice set. They may also leave outputs on a GPU if the caller wants them there (infer.DeviceOutput); the reader of
// the response copies them. All instances take such requests, on whichever device they run.
type DeviceMemoryUser interface {
	// UsesDeviceMemory reports whether an instance on a GPU gains from that. It is safe for concurrent use.
	UsesDeviceMemory(gpu int) bool
}

// Series is an Instance that can take several batches at once.
type Series interface {
	// ExecuteSeries executes batches one after the other, each with one request, and sets errs[i] to what Execute would
	// return for batches[i]. The timestamps of each batch must be those of its own execution (infer.Batch.Ran). A
	// request is answered soon after its own execution, not after the last one. If the instance cannot execute the
	// rest, and leave reports that another one can, their errors are infer.ErrNotBegun.
	ExecuteSeries(ctx context.Context, batches []*infer.Batch, errs []error, leave func() bool)
}

// Intermittent is an Instance that cannot execute at times, for example while its process is restarted.
type Intermittent interface {
	// Down returns nil if the instance can execute now, else a channel that is closed when that may have changed. It
	// must not block. It is safe for concurrent use.
	Down() <-chan struct{}
}

// GPUUser is a backend that may run instances on GPUs.
type GPUUser interface {
	// UsesGPUs reports whether it can, as it is set up now. If not, a model that does not name a kind of device runs on
	// the CPU. It is not one of the Traits because it may have to open the runtime's library.
	UsesGPUs() bool
}

// NormalizeOptions returns what a configuration's defaults depend on, with this backend (nil: none) and these GPUs.
func NormalizeOptions(b Backend, gpus []int32) (o modelconfig.NormalizeOptions) {
	o.GPUs = gpus
	if len(gpus) > 0 {
		u, ok := b.(GPUUser)
		o.CPUOnly = !ok || !u.UsesGPUs()
	}
	if b == nil || len(gpus) > 0 && !o.CPUOnly {
		return o
	}
	if n := b.Traits().DefaultInstanceCount; n > 0 {
		cpu := inferencepb.ModelInstanceGroup_KIND_CPU
		o.PreferredGroups = []*inferencepb.ModelInstanceGroup{{Kind: cpu, Count: int32(n)}}
	}
	return o
}

// Host is what a backend or an ensemble may ask of the server that runs it.
type Host interface {
	// Infer runs a request on another model. The caller reads the responses from r.
	Infer(ctx context.Context, r *infer.Request) error
	LoadModel(ctx context.Context, name string) error
	UnloadModel(ctx context.Context, name string) error
	ModelReady(name string, version int64) bool
}

// Inspector is a Host that knows what other models are.
type Inspector interface {
	// ModelDecoupled reports whether a model answers a request any number of times. Errors: NotFound.
	ModelDecoupled(name string, version int64) (bool, error)
}

// Loader is a Host that has all options of the protocol's load and unload requests.
type Loader interface {
	// LoadModelAs loads a model with another configuration (JSON; "": the repository's) and with files, by their path
	// in the model's folder, in place of the repository's.
	LoadModelAs(ctx context.Context, name, config string, files map[string][]byte) error
	// UnloadModelAll unloads a model and, if it is an ensemble, the models of its steps.
	UnloadModelAll(ctx context.Context, name string) error
}
