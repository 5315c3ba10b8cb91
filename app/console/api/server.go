package api

// Server answers GET /api/server.
type Server struct {
	// Name is the server's id as /v2 answers it.
	Name string `json:"name"`
	// Version of nereid.
	Version string `json:"version"`
	// TritonVersion that the protocol answers claim.
	TritonVersion string `json:"tritonVersion"`
	Live          bool   `json:"live"`
	Ready         bool   `json:"ready"`
	StartMs       int64  `json:"startMs"`
	// NowMs is the server's clock at the answer, for the page to correct its own.
	NowMs     int64     `json:"nowMs"`
	Addresses Addresses `json:"addresses"`
	// ModelControlMode is none, explicit or poll.
	ModelControlMode string           `json:"modelControlMode"`
	PollMs           int64            `json:"pollMs"`
	Repositories     List[Repository] `json:"repositories"`
	DataDir          string           `json:"dataDir"`
	ONNXRuntime      Runtime          `json:"onnxRuntime"`
	Backends         List[Backend]    `json:"backends"`
	History          HistoryStatus    `json:"history"`
	Process          Process          `json:"process"`
	Warnings         List[Warning]    `json:"warnings"`
	// Desktop is true when the native window is part of this process (POST /api/desktop/pick works).
	Desktop bool `json:"desktop"`
}

// Addresses that the server listens on, as host:port; empty when that listener is off.
type Addresses struct {
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	Metrics string `json:"metrics"`
	Console string `json:"console"`
	// TLS has the members above that speak TLS only: "http", "grpc", "metrics", "console".
	TLS List[string] `json:"tls"`
}

// Repository is one model repository.
type Repository struct {
	Path string `json:"path"`
	// Writable: imports, saved configurations and removals can be stored there.
	Writable bool `json:"writable"`
	Models   int  `json:"models"`
	// Error says why it cannot be read; its models keep serving.
	Error string `json:"error"`
}

// Runtime is a library that executes models.
type Runtime struct {
	// Version, empty when the library was not loaded.
	Version string `json:"version"`
	Library string `json:"library"`
	// Error says why it is not there and what to do.
	Error string `json:"error"`
}

// Backend is one execution engine that models may name.
type Backend struct {
	Name string `json:"name"`
	Note string `json:"note"`
}

// HistoryStatus says how full the history is.
type HistoryStatus struct {
	SizeBytes int64 `json:"sizeBytes"`
	OldestMs  int64 `json:"oldestMs"`
	// Dropped counts samples that were not kept because the store fell behind.
	Dropped int64 `json:"dropped"`
}

// Process is the server process and its machine.
type Process struct {
	PID       int    `json:"pid"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	CPUs      int    `json:"cpus"`
	GoVersion string `json:"goVersion"`
	RSSBytes  int64  `json:"rssBytes"`
	// CPUSeconds used since the start.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Warning is a condition the operator should know: an option without effect, an open listener.
type Warning struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
}

// ClientError is an error that happened in the page.
type ClientError struct {
	Message string `json:"message"`
	Source  string `json:"source"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Stack   string `json:"stack"`
	// Page is the route shown, such as "#/models/digits".
	Page      string `json:"page"`
	UserAgent string `json:"userAgent"`
}

// Desktop answers GET /api/desktop: what a window's program does besides.
type Desktop struct {
	// KeepRunning: closing the window hides it, and the server runs on. A second start shows it again.
	KeepRunning bool `json:"keepRunning"`
	// Autostart: the program starts when the user logs in, by the file AutostartPath. AutostartWhyNot says why it
	// cannot.
	Autostart       bool   `json:"autostart"`
	AutostartPath   string `json:"autostartPath"`
	AutostartWhyNot string `json:"autostartWhyNot"`
}

// SetDesktop decides both.
type SetDesktop struct {
	KeepRunning bool `json:"keepRunning"`
	Autostart   bool `json:"autostart"`
}

// PickRequest opens the system's dialog in the desktop window.
type PickRequest struct {
	// Folder picks a folder, else a file.
	Folder bool `json:"folder"`
}

// PickResult is the path that was picked; empty when the dialog was cancelled.
type PickResult struct {
	Path string `json:"path"`
}
