package worker

import "time"

// The times of this package. Those of the first group delay requests in rare cases.
const (
	// idleRead is how long after the last execution the read loop takes over again from the goroutines that execute.
	// A frame that a model sends between executions may wait that long. It is also how often an execution's limit is
	// checked. Shorter costs wake-ups; longer delays such frames.
	idleRead = 5 * time.Millisecond
	// restartPatience is how long a batch waits for a process that is being restarted before it fails. Most restarts
	// of a small model take less.
	restartPatience = 3 * time.Second
	// cycleCheck is how often a call that waits looks for a cycle of calls. cycleChecks is how many times in a row it
	// must find one: other threads of a model may be about to move.
	cycleCheck  = time.Second
	cycleChecks = 3
	// cancelPoll is how often a process that is written in Go looks whether its requests are cancelled.
	cancelPoll = 10 * time.Millisecond
	// pausePoll is how often such a process looks whether the client of a stream reads again.
	pausePoll = time.Millisecond
)

const (
	// abandonedTimeout is the default of process.Limits.Abandoned.
	abandonedTimeout = time.Minute
	// leaveGrace takes the place of process.Limits.Abandoned in a model that leaves service. The process is stopped
	// after once to twice this time.
	leaveGrace = 5 * time.Second
	// unloadTimeout is the default of process.Limits.Unload.
	unloadTimeout = 5 * time.Minute
	// refuseTime is how long an input is refused after it has crashed a process twice, and how long a crash counts.
	refuseTime = 10 * time.Minute
	// startTimeout is the default of Spec.StartTimeout.
	startTimeout = 30 * time.Second
	// outputDrain is how long the output of a process that has ended is read: a child of it may still have the pipe
	// open.
	outputDrain = 2 * time.Second
	// trimInterval is how often idle processes are asked to release memory, trimTimeout how long they may take to
	// reply.
	trimInterval = 30 * time.Second
	trimTimeout  = time.Second
)
