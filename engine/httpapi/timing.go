package httpapi

import "time"

// All durations of this package that are not options.
const (
	// tick is how often the watcher looks at the connections. It is the precision of the time limits, and the time in
	// which it is noticed that a client left. Twenty looks per second cost no measurable CPU time.
	tick = 50 * time.Millisecond

	// slowTick is the same while all connections are polled: then only IdleTimeout, which is minutes, must be enforced.
	slowTick = time.Second

	// defaultPollAfter is how long a connection has no request before the server frees its goroutine and memory, and
	// polls it. It is longer than the pauses of a busy client, and short enough for thousands of connections that are
	// opened at once.
	defaultPollAfter = 2 * time.Second

	// lingerTime is how long the server reads on after an early reply, for each MiB, so that the client can read the
	// reply before the connection is reset.
	lingerTime = 500 * time.Millisecond

	// roomWait is how long a body waits for memory when requests and responses use all that they may: longer than most
	// requests take.
	roomWait = time.Second

	// closingStall is how long a header, a body or a reply may make no progress while the server shuts down. Clients
	// that hang must not delay the exit.
	closingStall = 3 * time.Second

	// mostProgress is how many bytes of a body must arrive within StallTimeout at most, unknownProgress how many of one
	// whose length is not known. A client that sends less keeps memory and does not use it.
	mostProgress    = 64 << 10
	unknownProgress = 1 << 10

	// rejectTime bounds the answer to a connection that is refused. No connection is accepted meanwhile.
	rejectTime = 10 * time.Millisecond

	// minAcceptRetry and maxAcceptRetry bound the pause after a failure to accept, which doubles each time.
	minAcceptRetry = 5 * time.Millisecond
	maxAcceptRetry = time.Second
)
