// Package inspect looks at models without serving them: it finds every fault of a repository at once, and writes
// configurations from model files. It runs no code that a model brings: a Python model's own completion is left out. It
// starts no goroutine.
package inspect
