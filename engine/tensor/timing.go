package tensor

import "time"

// After large buffers were released, their memory is returned to the operating system when no more are released for
// returnDelay, and at the latest after returnLatest. A steady load so costs two garbage collections per returnLatest.
const (
	returnDelay  = 3 * time.Second
	returnLatest = 15 * time.Second
)
