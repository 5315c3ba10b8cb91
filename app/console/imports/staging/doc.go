// Package staging takes in model files from outside (an upload, a path, an archive) and arranges them as a model
// folder, outside of any repository.
//
// An Area is one folder that it owns. No name, link or archive entry can reach outside of it: every name from outside
// is checked before it reaches the disk, and every file is opened through an os.Root. Archives are unpacked within
// limits of count, size and ratio. Refusals are *rest.Error, for the user to read.
//
// The package starts no goroutine.
package staging
