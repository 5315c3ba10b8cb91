package api

// Server answers GET /api/server.
type Server struct {
	// Name is the name in the reply to GET /v2.
	Name string `json:"name"`
	// Version of Nereid.
	Version string `json:"version"`
	// NewVersion is the newer version that --new-version-from tells of.
	NewVersion NewVersion `json:"newVersion"`
	// TritonVersion is the version in the reply to GET /v2.
	TritonVersion string `json:"tritonVersion"`
	Live          bool   `json:"live"`
	Ready         bool   `json:"ready"`
	StartMs       int64  `json:"startMs"`
	// NowMs is the server's clock, by which the page corrects its own.
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
	// Scopes are what this client may do: admin is everything, view is to look, view and infer also to try models.
	Scopes List[string] `json:"scopes"`
	// Desktop is true if this process has the native window; then POST /api/desktop/pick works.
	Desktop bool `json:"desktop"`
}

// NewVersion is a version of Nereid; its fields are empty if none is known.
type NewVersion struct {
	Version string `json:"version"`
	// Link is for people. Text from outside: show it, do not follow it.
	Link string `json:"link"`
}

// Addresses on which the server listens, as host:port; empty if a listener is off.
type Addresses struct {
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	Metrics string `json:"metrics"`
	Console string `json:"console"`
	// Kiosk is the URL of the public page for this machine, KioskNetwork that for other devices.
	Kiosk        string `json:"kiosk"`
	KioskNetwork string `json:"kioskNetwork"`
	// TLS names the fields above whose listeners take only TLS: "http", "grpc", "metrics", "console".
	TLS List[string] `json:"tls"`
	// Token: programs on this machine must send a token to HTTP, gRPC and metrics.
	Token bool `json:"token"`
}

// Repository is one model repository.
type Repository struct {
	Path string `json:"path"`
	// Writable: imports, saved configurations and removals can be stored there.
	Writable bool `json:"writable"`
	Models   int  `json:"models"`
	// Error is why the repository cannot be read. Its models stay in service.
	Error string `json:"error"`
}

// Runtime is a library that executes models.
type Runtime struct {
	// Version is empty if the library was not loaded.
	Version string `json:"version"`
	Library string `json:"library"`
	// Error is why the library was not loaded, and what to do.
	Error string `json:"error"`
}

// Backend is a backend that configurations may name.
type Backend struct {
	Name string `json:"name"`
	Note string `json:"note"`
}

// HistoryStatus is the size of the history.
type HistoryStatus struct {
	SizeBytes int64 `json:"sizeBytes"`
	OldestMs  int64 `json:"oldestMs"`
	// Dropped counts samples that were lost because the database was too slow.
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
	// CPUSeconds is the CPU time since the start.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Warning is a condition that the operator should know, such as an option without effect.
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

// Desktop answers GET /api/desktop: the settings of the native window.
type Desktop struct {
	// KeepRunning: closing the window hides it, and the server runs on. A second start shows it again.
	KeepRunning bool `json:"keepRunning"`
	// Autostart: the program starts when the user logs in, by the file AutostartPath. AutostartWhyNot is why that is
	// not possible.
	Autostart       bool   `json:"autostart"`
	AutostartPath   string `json:"autostartPath"`
	AutostartWhyNot string `json:"autostartWhyNot"`
}

// SetDesktop changes the settings of Desktop.
type SetDesktop struct {
	KeepRunning bool `json:"keepRunning"`
	Autostart   bool `json:"autostart"`
}

// PickRequest opens the system's file dialog in the native window.
type PickRequest struct {
	// Folder: the user picks a folder, otherwise a file.
	Folder bool `json:"folder"`
}

// PickResult is the path that was picked; empty if the dialog was cancelled.
type PickResult struct {
	Path string `json:"path"`
}
