// Package capi is the C API with which Triton's backend libraries call the server, and what calls these libraries. That
// is for a process that executes one model instance: the state is global. libtritonserver.so, which is a program's
// server, shares the functions for errors, messages, requests and responses.
//
// The functions of the API are in C files, by their parts. functions.h lists all names; those that are not built
// answer that they are not supported. The program nereid exports none of the names: a library finds them in a small
// shared object that Open writes, whose symbols are the addresses of the functions in this process (see Stub).
//
// Goroutines: one for each request that a library or a program sends, until its final response. The methods of Host are
// called from any thread.
package capi
