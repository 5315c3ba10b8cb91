// Package lifecycle turns what is in the model repositories into served models: it loads, reloads and unloads, one
// change of a model at a time and several models at once, and keeps the table that requests look models up in.
//
// The table is immutable; a change builds a new one and stores one pointer, so a reload never blocks a request and a
// request never sees half a change. A version goes into service only after it is loaded and warmed; the one that it
// replaces leaves after that, and is closed when its last request is answered. When a change fails, what was in service
// stays, and the reason is kept for the repository index.
//
// What becomes of a model at an event says one pure function, next; see state.go. A model whose memory was given back
// stays in service, and its next request loads it; see residency.go.
//
// Goroutines: Run (its caller's), one for each change under way, one for each version that drains, one for each model
// that requests wait for, and one that tends the budget of memory if there is one. Close waits for all.
package lifecycle
