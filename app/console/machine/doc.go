// Package machine serves what the console shows about the server and its machine: versions and addresses, memory and
// GPUs, the processes and environments of models, and the Python frameworks that can be installed.
//
// Each installation has two goroutines: one installs, one publishes the progress.
package machine
