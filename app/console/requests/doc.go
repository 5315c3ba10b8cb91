// Package requests shows the recorded requests. It starts no goroutine.
package requests
