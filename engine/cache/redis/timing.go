package redis

import "time"

// retryInterval is how long a Redis server is not used after an error, so that requests do not wait for a server that
// is down.
const retryInterval = time.Second
