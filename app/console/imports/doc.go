// Package imports takes in models from outside. An import is staged in the data folder, outside of any repository,
// until the user commits it. Then its folder is copied into a repository, exchanged with a model of that name if
// there is one, and loaded. If the load fails, everything is as it was.
//
// Package staging unpacks and checks what arrives. arrange.go makes a model folder of it, and commit.go puts that into
// a repository.
//
// Each commit runs on a goroutine of the console's tasks.
package imports
