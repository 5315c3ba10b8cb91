// Package whatif predicts the latency that the last requests of a model would have had with other settings of its
// dynamic batcher, without an execution.
//
// Read takes from the records of package requests when requests arrived and how long executions took.
// Recording.Predict lets the requests arrive again at a batcher with Triton's rules, and jumps from event to event. The
// execution times of a batch size are those that were recorded for it; between and above recorded sizes they follow a
// line.
//
// It does not know how requests or executions would change: clients that wait for answers would come at other times,
// and instances that share cores would slow each other down. Priorities, queue policies and shapes that keep requests
// apart are left out.
package whatif
