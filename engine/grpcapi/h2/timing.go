package h2

import "time"

const (
	// maxResumeDelay is how long calls that can be resumed may wait for the reader, which resumes them before it
	// waits for the client again. Beyond it the writer resumes them. A lone call so needs no switch of goroutines,
	// and the calls of a burst share a write.
	maxResumeDelay = 100 * time.Microsecond
	// roomWait is how long a compressed message waits for memory when requests and responses use all that they may.
	roomWait = time.Second
	// lingerTime is how long a client that is being disconnected may take to read why.
	lingerTime = time.Second
	// maxStallCheck is the longest time between two looks for clients that hang.
	maxStallCheck = 5 * time.Second
	// mostProgress is how many bytes of a message must arrive within Options.StallTimeout at most.
	mostProgress = 64 << 10
	// closingStall is how long a client may hang while the server shuts down.
	closingStall = 3 * time.Second
	// streamStalls is how many times as long as others the client of a stream may leave an answer.
	streamStalls = 5
	// firstCallStalls is how many times Options.StallTimeout a client may take to its first call. A client that
	// compresses a large message opens the call afterwards.
	firstCallStalls = 5
	// drainTimeout is how long a client may take to answer the ping that follows the first GOAWAY of a graceful end.
	drainTimeout = 3 * time.Second
)
