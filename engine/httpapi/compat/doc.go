// Package compat has the parts of other inference protocols that differ from KServe v2: the documents of KServe v1
// (TensorFlow Serving), and the routes and replies of Amazon SageMaker's and Google Vertex AI's containers.
//
// It knows no connection and no server. Package httpapi reads the requests, calls the functions here and sends what
// they return. It starts no goroutines.
package compat

// The content types of replies.
const (
	typeJSON = "application/json"
	typeText = "text/plain"
)

// Reply is the answer to a request.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}
