package python

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"nereid/engine/status"
	"nereid/engine/worker/process"
)

// settings are the backend's, for all models.
type settings struct {
	interpreter string
	arena, grow int64
	timeout     time.Duration // for a process to say hello
	grace       time.Duration // for a model to finalize
	limits      process.Limits
	visible     visibility
}

// withoutEffect are Triton's settings that are accepted and ignored: shared memory has no name here, and there are no
// message queues or thread pools.
var withoutEffect = []string{"shm-region-prefix-name", "stub-message-queue-size", "thread-pool-size"}

// shared are settings of all backends. This one ignores them.
var shared = []string{"backend-directory", "min-compute-capability", "auto-complete-config", "default-max-batch-size"}

// Known reports whether a setting of --backend-config=python,key=value is known, and whether it has an effect.
func Known(key string) (known, effect bool) {
	switch key {
	case "shm-default-byte-size", "shm-growth-byte-size", "stub-timeout-seconds", "python", "memory-limit-byte-size",
		"open-files-limit", "processes-limit", "execute-timeout-seconds", "abandoned-timeout-seconds",
		"unload-timeout-seconds", visibleSetting:
		return true, true
	}
	return slices.Contains(withoutEffect, key), false
}

// CheckSetting returns InvalidArg if the value of a setting is invalid.
func CheckSetting(key, value string) error {
	_, err := parseSettings(map[string]string{key: value})
	return err
}

// parseSettings reads the backend's settings. Errors: InvalidArg.
func parseSettings(all map[string]string) (settings, error) {
	s := settings{interpreter: "python3", timeout: 30 * time.Second, grace: 30 * time.Second, visible: seesAll}
	for key, value := range all {
		var err error
		switch key {
		case "python":
			s.interpreter = value
		case "shm-default-byte-size":
			s.arena, err = positive(value)
		case "shm-growth-byte-size":
			s.grow, err = positive(value)
		case "stub-timeout-seconds":
			var n int64
			n, err = positive(value)
			s.timeout = process.Seconds(n)
			s.grace = s.timeout
		case visibleSetting:
			s.visible, err = parseVisibility(value)
		default:
			if known, _ := Known(key); known || slices.Contains(shared, key) {
				_, err = s.limits.Set(key, value)
			} else {
				err = fmt.Errorf("there is no such setting; those of the python backend are python, " +
					"shm-default-byte-size, shm-growth-byte-size, stub-timeout-seconds, memory-limit-byte-size, " +
					"open-files-limit, processes-limit, execute-timeout-seconds, abandoned-timeout-seconds, " +
					"unload-timeout-seconds, visible-gpus")
			}
		}
		if err != nil {
			return s, status.Errorf(status.InvalidArg, "backend-config python,%s=%s: %w", key, value, err)
		}
	}
	return s, nil
}

func positive(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > 1<<50 {
		return 0, fmt.Errorf("%q is not a positive number", v)
	}
	return n, nil
}
