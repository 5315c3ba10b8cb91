// Package backendtest is the test suite for the contract of backend.Backend. Every backend must pass it.
package backendtest
