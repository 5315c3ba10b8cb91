// Package backend is the contract between the core and an execution engine: the driver interface of inference.
//
// A Backend loads model files into Models; a Model makes Instances; an Instance executes batches, one at a time. The
// core owns scheduling, statistics, queues and the lives of models; a backend owns its runtime's memory and threads.
// No goroutines here.
package backend
