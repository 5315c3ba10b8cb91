// Package shadow sends copies of a model's requests to a candidate version and compares the answers.
//
// Shadow.Run needs one goroutine, which the caller starts; the package starts none.
package shadow
