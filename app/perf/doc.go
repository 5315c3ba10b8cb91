// Package perf measures a server that speaks the KServe v2 protocol with Triton's extensions, as perf_analyzer does:
// under a load of requests in flight or of requests per second, in windows until three of them agree.
//
// Describe asks the server about a model. ReadInputs, ParseData, Generate and ReadFolder make the inputs. NewUnary and
// NewStream are the ways to send requests. Run measures the levels of a search. WriteReport, WriteCSV and WriteExport
// write the results in perf_analyzer's forms. The package prints nothing else: Events are called for what happens.
//
// In a closed loop, the latency of a request begins when it is sent. In an open loop (request rates, intervals,
// schedules) it begins when the request was due. So it includes the time that the request waited for a slow server.
//
// Run has a goroutine for each concurrent request, or one for the schedule and one for each request in flight. All have
// ended when it returns. A Stream has a goroutine for each of its calls, which end with Close.
package perf
