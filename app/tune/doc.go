// Package tune searches for a model's best configuration: how large its batches may be, how long they wait, how many
// instances and threads it has, and under which load that is at its best.
//
// It decides what to measure next and what the figures mean. It measures nothing itself: the caller's Measure does, so that
// the searches can be tested on surfaces that are known. Quick climbs from the present configuration within a budget of a few
// dozen measurements, Brute measures all that was asked for. Both are deterministic in what was measured: given the
// measurements of a run that was cut short (Options.Known), they repeat its decisions and go on where it ended.
//
// The names of metrics, objectives and constraints are those of Triton's model_analyzer. It starts no goroutine.
package tune
