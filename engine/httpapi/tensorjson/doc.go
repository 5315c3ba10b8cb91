// Package tensorjson reads and writes the JSON of inference requests and responses.
//
// Scanner reads any JSON document in one pass. Parser uses it to fill an infer.Request from the forms that the KServe
// v2 protocol and Triton's generate extension have; tensor data goes straight into typed bytes. Builder and the
// Append functions write JSON in the form that Triton writes it, digit for digit.
//
// A document may be hostile. Memory is bounded by its size, nesting by 100 levels. All errors are coded: InvalidArg for
// a fault of the client, with the text that Triton's clients know. An error of the document's syntax is reported before
// one of its meaning, wherever they stand.
//
// The package starts no goroutines. A value of its types must not be used by several goroutines at once.
package tensorjson
