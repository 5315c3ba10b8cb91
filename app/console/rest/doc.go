// Package rest reads the requests and writes the replies of the console's JSON interface. It also defines the errors
// that every area of the console returns: an Error carries the api.Code from which the HTTP status follows.
package rest
