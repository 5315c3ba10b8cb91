package sched

import "time"

// minHold is the shortest time for which an instance leaves requests to another one. Estimates of the time that the
// other instance still needs are not more precise than this, and a shorter wait would end before the batch of the
// other.
const minHold = 50 * time.Microsecond
