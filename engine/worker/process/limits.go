package process

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// Limits bound what a process takes. For descriptors and memory, each child of the process is counted separately.
type Limits struct {
	// Memory is the most private memory in bytes; allocations beyond it fail inside the process. 0: what the machine,
	// or the server's control group, has. Negative: no limit.
	Memory int64
	// Files is the most descriptors. 0: as the server's.
	Files uint64
	// Processes is the most processes and threads of the server's user. 0: as the server's. The kernel does not apply
	// it to root.
	Processes uint64
	// Execute is the longest that an execution may take before the process is killed. 0: there is no limit.
	Execute time.Duration
	// Abandoned is how long an execution may go on after its last client has left. Then the process is killed. 0: a
	// minute.
	Abandoned time.Duration
	// Unload is how long an execution of a model that has left service may go on although a client waits. Then the
	// process is killed. 0: five minutes.
	Unload time.Duration
}

// The settings that limit a process.
const (
	memoryLimit    = "memory-limit-byte-size"
	filesLimit     = "open-files-limit"
	processesLimit = "processes-limit"
	executeLimit   = "execute-timeout-seconds"
	abandonedLimit = "abandoned-timeout-seconds"
	unloadLimit    = "unload-timeout-seconds"
)

// Set sets a limit by the name of a backend's setting: memory-limit-byte-size, open-files-limit, processes-limit,
// execute-timeout-seconds, abandoned-timeout-seconds or unload-timeout-seconds. For other names known is false. The
// error is a value that is not a positive number.
func (l *Limits) Set(key, value string) (known bool, err error) {
	switch key {
	case memoryLimit, filesLimit, processesLimit, executeLimit, abandonedLimit, unloadLimit:
	default:
		return false, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 || n > 1<<50 {
		return true, fmt.Errorf("%q is not a positive number", value)
	}
	switch key {
	case memoryLimit:
		l.Memory = n
	case filesLimit:
		l.Files = uint64(n)
	case processesLimit:
		l.Processes = uint64(n)
	case executeLimit:
		l.Execute = Seconds(n)
	case abandonedLimit:
		l.Abandoned = Seconds(n)
	case unloadLimit:
		l.Unload = Seconds(n)
	}
	return true, nil
}

// Seconds returns so many seconds, or about 146 years if they are more.
func Seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(1<<62/time.Second))) * time.Second
}

// SetParameter is Set for a model's parameter, whose name is that of the setting in capitals with underscores:
// MEMORY_LIMIT_BYTE_SIZE.
func (l *Limits) SetParameter(name, value string) (known bool, err error) {
	if name != strings.ToUpper(name) {
		return false, nil
	}
	return l.Set(strings.ReplaceAll(strings.ToLower(name), "_", "-"), value)
}

// Of returns the limits of a model's processes: those that the model's parameters set (see SetParameter), else l's.
// Errors: InvalidArg.
func (l Limits) Of(cfg *inferencepb.ModelConfig) (Limits, error) {
	for name, p := range cfg.GetParameters() {
		if _, err := l.SetParameter(name, p.GetStringValue()); err != nil {
			return l, status.Errorf(status.InvalidArg, "parameter %s of model '%s': %w", name, cfg.GetName(), err)
		}
	}
	return l, nil
}
