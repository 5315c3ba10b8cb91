// Package staging takes in model files from outside (an upload, a path, an archive) and arranges them as a model
// folder, apart from any repository.
//
// An Area is one folder that it owns. Every name that comes from outside is checked before it touches the disk, and
// every file is opened through an os.Root, so that no name, link or archive entry reaches outside the Area. Archives
// are unpacked within limits of count, size and ratio. No goroutines.
package staging
