// Package inspect checks models without serving them. It finds all faults of a repository at once, and writes
// configurations from model files. It runs no code of models, so Python models do not complete their configurations. It
// starts no goroutine.
package inspect
