package process

import "time"

// The times of restarts; see Restarts. None is on the path of a request.
const (
	shortestWait = 200 * time.Millisecond
	longestWait  = 30 * time.Second
	healthyAfter = time.Minute
)
