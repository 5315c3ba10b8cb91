package sched

import "time"

// minHold is the shortest time for which an instance leaves requests to another one. Estimates of the time that the
// other instance still needs are not more precise than this, and a shorter wait would end before the batch of the
// other.
const minHold = 50 * time.Microsecond

// nudgeMost is the longest wait that is made precise. For longer ones, a millisecond is not worth a descriptor.
const nudgeMost = 20 * time.Millisecond
