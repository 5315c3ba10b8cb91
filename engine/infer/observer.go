package infer

// Observer is notified of a request's end before the caller receives the final response. So a caller that has its
// response finds itself counted.
type Observer interface {
	// Finished is called once, with the final response, on the goroutine that responds. It must not block.
	Finished(r *Request, resp *Response)
}

// StreamObserver is an Observer that is also notified of every response before the final one.
type StreamObserver interface {
	// Streamed is called for each of them, on the goroutine that responds. It must not block.
	Streamed(r *Request, resp *Response)
}
