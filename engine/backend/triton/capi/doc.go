// Package capi is the C API with which Triton's backend libraries call the server, and what calls these libraries. It
// is for a process that executes one model instance: the state is global.
//
// The functions of the API are in C files, by their parts. functions.h lists all names; those that are not built
// answer that they are not supported. The program exports none of the names: a library finds them in a small shared
// object that Open writes, whose symbols are the addresses of the functions in this process (see Stub).
//
// Goroutines: none. The functions of Host are called from threads of the library.
package capi
