package infer

import "time"

// slowReaderTimeout is how long a decoupled model blocks because the client does not read its responses. Then the
// request is cancelled, so that a client that never reads cannot occupy an instance. A patient request's stream grows.
const slowReaderTimeout = time.Minute
