package api

// Machine answers GET /api/machine and is the stream's topic machine: the load of the machine on which the server runs.
type Machine struct {
	// TMs is when it was read.
	TMs  int64 `json:"tMs"`
	CPUs int   `json:"cpus"`
	// CPUBusy is the share of all cores that was busy since the last reading, from 0 to 1. It counts all programs; null
	// if unknown.
	CPUBusy *float64 `json:"cpuBusy"`
	// MemoryBytes is the memory that the server may use, MemoryFreeBytes what is free of it; 0 if unknown.
	MemoryBytes     int64 `json:"memoryBytes"`
	MemoryFreeBytes int64 `json:"memoryFreeBytes"`
	// ProcessBytes is the resident memory of the server's own process.
	ProcessBytes int64 `json:"processBytes"`
	// ModelBytes is the memory of the loaded models, each measured as its memorySource says.
	ModelBytes int64     `json:"modelBytes"`
	GPUs       List[GPU] `json:"gpus"`
	// HostPolicies are those of the option --host-policy.
	HostPolicies List[HostPolicy] `json:"hostPolicies"`
	Budget       Budget           `json:"budget"`
}

// HostPolicy is a host policy of the option --host-policy.
type HostPolicy struct {
	Name string `json:"name"`
	// Affinity has the form of the option, such as "cpu-cores=0-3 numa-node=0".
	Affinity string `json:"affinity"`
}

// GPU is a GPU that models may use. What the driver does not report is null.
type GPU struct {
	// Index is the number that instance groups use, Physical the number that nvidia-smi shows.
	Index       int      `json:"index"`
	Physical    int      `json:"physical"`
	UUID        string   `json:"uuid"`
	Name        string   `json:"name"`
	Capability  string   `json:"capability"`
	MemoryBytes int64    `json:"memoryBytes"`
	UsedBytes   *int64   `json:"usedBytes"`
	Utilization *float64 `json:"utilization"`
	PowerW      *float64 `json:"powerW"`
	Celsius     *float64 `json:"celsius"`
	// ModelBytes is the GPU memory of this server's models.
	ModelBytes int64 `json:"modelBytes"`
	// BudgetBytes is the limit of ModelBytes; 0: no limit.
	BudgetBytes int64 `json:"budgetBytes"`
	// Error is why the GPU cannot be read now.
	Error string `json:"error"`
}

// Budget limits the memory of models. Above it, the least recently used models are evicted.
type Budget struct {
	// On: models may be evicted, and are loaded again on demand.
	On bool `json:"on"`
	// Bytes of the machine's memory; 0: no limit.
	Bytes int64 `json:"bytes"`
	// IdleMs is the time without a request after which a model is evicted; 0: it never is for that reason.
	IdleMs int64 `json:"idleMs"`
	// Pinned, Resident and Evicted count models.
	Pinned   int `json:"pinned"`
	Resident int `json:"resident"`
	Evicted  int `json:"evicted"`
}

// ModelRuntime answers GET /api/models/{name}/runtime: the instances of a model and their environment.
type ModelRuntime struct {
	Instances List[Instance] `json:"instances"`
	// Environment of a Python model; null for other models, and before the first load.
	Environment *Environment `json:"environment"`
}

// Instance is one model instance.
type Instance struct {
	Version string `json:"version"`
	Name    string `json:"name"`
	// Kind is KIND_CPU, KIND_GPU or KIND_MODEL. With KIND_GPU, GPU is the index of the GPU.
	Kind string `json:"kind"`
	GPU  int    `json:"gpu"`
	// HostPolicy is the name of the host policy that applies. Affinity is its content in the form of the option, such
	// as "cpu-cores=0-3 numa-node=0"; it may be empty.
	HostPolicy string `json:"hostPolicy"`
	Affinity   string `json:"affinity"`
	// Passive instances take no requests.
	Passive bool `json:"passive"`
	// Process of the instance; null if the instance runs in the server's process.
	Process *Worker `json:"process"`
}

// Worker is the process of an instance.
type Worker struct {
	// PID is 0 while no process runs.
	PID int `json:"pid"`
	// SinceMs is when the process was ready; 0 while none is.
	SinceMs     int64 `json:"sinceMs"`
	MemoryBytes int64 `json:"memoryBytes"`
	// Ends counts crashes and unexpected exits. Quarantined: the process is not started again.
	Ends        int  `json:"ends"`
	Quarantined bool `json:"quarantined"`
	// Error is why the instance takes no requests now; empty if it does.
	Error string `json:"error"`
	// Output has the last lines of the process, Before those of the previous process.
	Output List[string] `json:"output"`
	Before List[string] `json:"before"`
}

// Environment is the Python that a model runs in.
type Environment struct {
	// Kind is machine, folder, archive, requirements or framework.
	Kind string `json:"kind"`
	// State is building, ready or failed.
	State   string `json:"state"`
	SinceMs int64  `json:"sinceMs"`
	// Python is the interpreter's path; empty until it is known.
	Python string `json:"python"`
	// Source is the requirements file, folder or archive. Folder is the path of the environment.
	Source string `json:"source"`
	Folder string `json:"folder"`
	// Log has the last lines of the installer's output. LogPath is the file with all of it.
	Log     List[string] `json:"log"`
	LogPath string       `json:"logPath"`
	// Lock has the installed packages with their versions, one a line.
	Lock  List[string] `json:"lock"`
	Error string       `json:"error"`
}

// Frameworks answers GET /api/frameworks.
type Frameworks struct {
	Frameworks List[Framework] `json:"frameworks"`
}

// Framework is what the models of a backend need and the program does not bring: packages of Python's package index.
// It is also the stream's topic framework, while one is installed and at its end.
type Framework struct {
	// Name of the backend.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Package with its version, and about how much room it takes.
	Package string         `json:"package"`
	Size    string         `json:"size"`
	State   FrameworkState `json:"state"`
	// SinceMs is when the installation began, while State is installing.
	SinceMs int64 `json:"sinceMs"`
	// Log is the end of what the installer says, or said last.
	Log List[string] `json:"log"`
	// Reason in full, of failed.
	Reason string `json:"reason"`
	// Waiting are the models that could not be loaded because there was too little.
	Waiting List[string] `json:"waiting"`
}

// FrameworkState says how far a framework's installation is.
type FrameworkState string

// The states.
const (
	FrameworkMissing    FrameworkState = "missing"
	FrameworkInstalling FrameworkState = "installing"
	FrameworkInstalled  FrameworkState = "installed"
	FrameworkFailed     FrameworkState = "failed"
)

// InstallFramework begins an installation.
type InstallFramework struct {
	// Consent: the user knows the size and agrees that packages are fetched from the package index.
	Consent bool `json:"consent"`
}
