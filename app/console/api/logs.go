package api

// Logs answers GET /api/logs: lines of the server's log that are still in memory, the oldest first.
type Logs struct {
	Lines List[LogLine] `json:"lines"`
	// Next is the value of after that continues here.
	Next int64 `json:"next"`
	// Missed counts lines that left memory between after and the first line that is kept.
	Missed int64 `json:"missed"`
	// LeftOut counts older lines that match and are above the limit.
	LeftOut  int         `json:"leftOut"`
	Settings LogSettings `json:"settings"`
}

// LogLine is a line of the log.
type LogLine struct {
	// Seq grows with each line, also over restarts of the server.
	Seq   int64    `json:"seq"`
	TMs   int64    `json:"tMs"`
	Level LogLevel `json:"level"`
	Text  string   `json:"text"`
	// Values are the line's named values, in the form of the log: "model=digits version=1".
	Values string `json:"values"`
	// Source is the place in the program's code, such as "poll.go:12".
	Source string `json:"source"`
	// Process: a model's process wrote the line.
	Process bool `json:"process"`
}

// LogLevel is the level of a line.
type LogLevel string

// The levels, from the least urgent.
const (
	LogVerbose LogLevel = "verbose"
	LogInfo    LogLevel = "info"
	LogWarning LogLevel = "warning"
	LogError   LogLevel = "error"
)

// LogSettings are the levels that are written to the log. They are the settings of Triton's logging extension.
type LogSettings struct {
	Info    bool `json:"info"`
	Warning bool `json:"warning"`
	Error   bool `json:"error"`
	// Verbose is 0 for no verbose lines.
	Verbose uint32 `json:"verbose"`
	// File is the log's file; empty: standard error.
	File string `json:"file"`
}

// SetLog changes levels of the log at once, until the server ends. What is null or absent stays.
type SetLog struct {
	Info    *bool   `json:"info"`
	Warning *bool   `json:"warning"`
	Error   *bool   `json:"error"`
	Verbose *uint32 `json:"verbose"`
}
