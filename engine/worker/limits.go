package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// The settings that bound a worker.
const (
	memoryLimit    = "memory-limit-byte-size"
	filesLimit     = "open-files-limit"
	processesLimit = "processes-limit"
	executeLimit   = "execute-timeout-seconds"
)

// Set sets a limit by the name that it has among a backend's settings: memory-limit-byte-size, open-files-limit,
// processes-limit, execute-timeout-seconds. Other names are left alone: known is false. The error is a value that is no
// positive number.
func (l *Limits) Set(key, value string) (known bool, err error) {
	switch key {
	case memoryLimit, filesLimit, processesLimit, executeLimit:
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
		l.Execute = time.Duration(min(n, int64(1<<62/time.Second))) * time.Second
	}
	return true, nil
}

// SetParameter sets a limit by the name that it has among a model's parameters, the setting's in capitals with underscores, like
// MEMORY_LIMIT_BYTE_SIZE; otherwise as Set.
func (l *Limits) SetParameter(name, value string) (known bool, err error) {
	if name != strings.ToUpper(name) {
		return false, nil
	}
	return l.Set(strings.ReplaceAll(strings.ToLower(name), "_", "-"), value)
}

// Of returns the limits of a model's workers: these, or what the model's parameters say (see SetParameter). Errors: InvalidArg.
func (l Limits) Of(cfg *inferencepb.ModelConfig) (Limits, error) {
	for name, p := range cfg.GetParameters() {
		if _, err := l.SetParameter(name, p.GetStringValue()); err != nil {
			return l, status.Errorf(status.InvalidArg, "parameter %s of model '%s': %w", name, cfg.GetName(), err)
		}
	}
	return l, nil
}
