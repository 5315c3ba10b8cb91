// Package backendtest is the suite that every backend must pass: what backend.Backend promises, tried from outside.
package backendtest
