// Package instance runs an instance group: it makes a model version's instances and gives each a goroutine that pulls
// batches from the scheduler and executes them.
//
// Goroutines: one per instance, from Start until the scheduler is closed and empty, or the Set is closed. Close waits
// for all of them.
package instance
