package app

import (
	"log/slog"
	"math"

	"nereid/engine/awake"
	"nereid/engine/worker"
)

// coresAwake is the most cores that are kept awake without being asked for: on more of them who waits is woken on any.
const coresAwake = 4

// newLauncher makes what starts the processes of models, for all backends. The caller closes it when no model is left.
func newLauncher(c *Config, log *slog.Logger) *worker.Launcher {
	l := worker.NewLauncher(log)
	switch c.KeepAwake {
	case "true":
		l.KeepAwake(awake.New(math.MaxInt))
	case "false":
	default:
		if awake.Slow() {
			l.KeepAwake(awake.New(coresAwake))
		}
	}
	return l
}
