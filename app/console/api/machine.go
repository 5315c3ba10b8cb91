package api

// Machine answers GET /api/machine and is the stream's topic machine: the server's machine and its load.
type Machine struct {
	// TMs is when it was read.
	TMs  int64 `json:"tMs"`
	CPUs int   `json:"cpus"`
	// CPUBusy is the share of all cores that was busy since the last reading, of whatever program, 0 to 1; null when
	// unknown.
	CPUBusy *float64 `json:"cpuBusy"`
	// MemoryBytes is what there is for the server, MemoryFreeBytes what could still be had of it; 0 when unknown.
	MemoryBytes     int64 `json:"memoryBytes"`
	MemoryFreeBytes int64 `json:"memoryFreeBytes"`
	// ProcessBytes is the resident memory of the server's own process.
	ProcessBytes int64 `json:"processBytes"`
	// ModelBytes is what the loaded models take of the machine's memory, each as its memorySource says.
	ModelBytes int64     `json:"modelBytes"`
	GPUs       List[GPU] `json:"gpus"`
	// HostPolicies are the names that --host-policy gives settings to, with these settings.
	HostPolicies List[HostPolicy] `json:"hostPolicies"`
	Budget       Budget           `json:"budget"`
}

// HostPolicy is one of --host-policy.
type HostPolicy struct {
	Name string `json:"name"`
	// Affinity as the option has it: "cpu-cores=0-3 numa-node=0".
	Affinity string `json:"affinity"`
}

// GPU is one that models may use. What the driver does not tell is null.
type GPU struct {
	// Index is the number that instance groups name; Physical that on the machine, as nvidia-smi shows it.
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
	// ModelBytes is what this server's models take of it.
	ModelBytes int64 `json:"modelBytes"`
	// BudgetBytes bounds ModelBytes; 0: nothing does.
	BudgetBytes int64 `json:"budgetBytes"`
	// Error says why it cannot be read now.
	Error string `json:"error"`
}

// Budget is how much memory models may take before those used longest ago leave.
type Budget struct {
	// On: models may leave memory, for want of room or of requests, and come back by themselves.
	On bool `json:"on"`
	// Bytes of the machine's memory; 0: no bound.
	Bytes int64 `json:"bytes"`
	// IdleMs is after how long without a request a model leaves; 0: never for that.
	IdleMs int64 `json:"idleMs"`
	// Pinned, Resident and Evicted count models.
	Pinned   int `json:"pinned"`
	Resident int `json:"resident"`
	Evicted  int `json:"evicted"`
}

// ModelRuntime answers GET /api/models/{name}/runtime: where a model's instances run, and what they run in.
type ModelRuntime struct {
	Instances List[Instance] `json:"instances"`
	// Environment of a Python model; null for others, and before its first load.
	Environment *Environment `json:"environment"`
}

// Instance is one model instance.
type Instance struct {
	Version string `json:"version"`
	Name    string `json:"name"`
	// Kind is KIND_CPU, KIND_GPU or KIND_MODEL; GPU is the index of a KIND_GPU's card.
	Kind string `json:"kind"`
	GPU  int    `json:"gpu"`
	// HostPolicy is the name of the host policy that counts for it. Affinity is what that says, as options have it
	// ("cpu-cores=0-3 numa-node=0"); empty: nothing.
	HostPolicy string `json:"hostPolicy"`
	Affinity   string `json:"affinity"`
	// Passive instances take no requests.
	Passive bool `json:"passive"`
	// Process is that of an instance with one of its own, else null.
	Process *Worker `json:"process"`
}

// Worker is the process of an instance.
type Worker struct {
	// PID is 0 while no process runs.
	PID int `json:"pid"`
	// SinceMs is when it was taken into service; 0 while none is.
	SinceMs     int64 `json:"sinceMs"`
	MemoryBytes int64 `json:"memoryBytes"`
	// Ends counts how often it ended without being asked to. Quarantined: it is not started again.
	Ends        int  `json:"ends"`
	Quarantined bool `json:"quarantined"`
	// Error says why it takes no requests now; empty: it does.
	Error string `json:"error"`
	// Output is the last lines that it wrote, Before those of the process before it.
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
	// Source is the requirements file, folder or archive; Folder is where the environment lies.
	Source string `json:"source"`
	Folder string `json:"folder"`
	// Log is the end of what the installer said, LogPath the whole of it.
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
	// Waiting are the models that could not be loaded for want of it.
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
