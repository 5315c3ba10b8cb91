package onnxruntime

import "time"

// cancelCheckInterval is how often a run in progress is checked for cancellation. A shorter interval would cost short
// runs more; a longer one would keep the instance busy for longer with a result that no client waits for.
const cancelCheckInterval = 10 * time.Millisecond
