package engine

// LogSettings are the log's settings, in the terms of the logging extension.
type LogSettings struct {
	File                 string // "": the console. Clients read it and cannot change it.
	Info, Warning, Error bool
	Verbose              uint32 // 0: no verbose messages
	Format               string // "default" or "ISO8601"
}

// LogUpdate is a change of the log's settings. nil fields stay.
type LogUpdate struct {
	Info, Warning, Error *bool
	Verbose              *uint32
	Format               *string
}

// LogControl is the program's log, as the protocols' logging extension reads and changes it. Safe for concurrent use.
type LogControl interface {
	LogSettings() LogSettings
	// UpdateLog changes the settings at once. The format is one of the two.
	UpdateLog(u LogUpdate)
}

// LogFormat reports whether name is a log format.
func LogFormat(name string) bool { return name == "default" || name == "ISO8601" }
