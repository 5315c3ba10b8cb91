// Package tfapi is TensorFlow's C API, opened at run time from libtensorflow_cc or libtensorflow: SavedModels and
// graphs are loaded into sessions, and runners run them. Only what is used is declared; nothing is linked.
//
// The library stays for the life of the process. Messages and codes of errors are TensorFlow's. No goroutines.
package tfapi
