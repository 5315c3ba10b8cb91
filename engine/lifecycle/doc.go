// Package lifecycle turns what is in the model repositories into served models: it loads, reloads and unloads, one
// change of a model at a time and several models at once. It keeps the table in which requests look models up.
//
// The table is immutable. A change builds a new one and stores one pointer, so a reload never blocks a request and a
// request never sees half a change. A version goes into service after it is loaded and warmed. The version that it
// replaces leaves after that, and is closed when its last request is answered. If a change fails, what was in service
// stays, and the reason is kept for the repository index.
//
// One pure function, next, decides the next state of a model for each event; see state.go. An evicted model stays in
// service, and its next request loads it; see package residency. The kinds of loads are the methods of operation; see
// load.go.
//
// Goroutines: Run (its caller's), one for each change under way, one for each version that drains, one for each model
// that requests wait for, and one for the memory budget. Close waits for all.
package lifecycle
