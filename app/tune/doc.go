// Package tune searches for a model's best configuration: the batch size, the queue delay, the instances, the threads,
// and the load under which the configuration is at its best.
//
// It decides what to measure next and what the figures mean. The caller's Options.Measure measures, so that tests can
// run the searches on known surfaces. Quick climbs from the present configuration within a budget of a few dozen
// measurements. Brute measures all candidates, Each every single change. All depend only on the measurements: with
// those of an interrupted run in Options.Known they repeat its decisions and continue where it ended.
//
// Metrics, objectives and constraints have the names of Triton's model_analyzer. The package starts no goroutine.
package tune
