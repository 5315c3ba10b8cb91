// Package perf measures a server that speaks the KServe v2 protocol with Triton's extensions, as perf_analyzer does: a load
// of so many requests at a time, or of so many a second, in windows until three of them agree.
//
// Describe asks the server about a model, ParseData, Generate and ReadFolder make what is sent, NewUnary and NewStream are the
// ways to send it, and Run measures the levels of a search. WriteReport, WriteCSV and WriteExport show the points in
// perf_analyzer's forms. Nothing is printed otherwise: Events tell of what happens.
//
// A closed loop's latency begins when the request is sent. An open loop's (request rates, intervals, schedules) begins when
// it was due, so that a server that holds the load up is charged for all that had to wait.
//
// Run has a goroutine for each concurrent request, or one for the schedule and one for each request under way; all have
// ended when it returns. A Stream has one for each of its calls, which end with Close.
package perf
