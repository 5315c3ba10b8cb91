// Package get brings models from outside into a model repository: from a URL, a hub, an OCI registry, a package of the
// Python index, or the disk. Everything is staged in a hidden folder of the repository, which is removed at the end.
// Nothing of a source is run.
package get
