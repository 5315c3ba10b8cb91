package tensor

import "time"

// returnDelay is the time between the release of large buffers and the return of their memory to the operating system.
// It limits the garbage collections for this to one per second while large requests keep coming.
const returnDelay = time.Second
