// Package tunecmd is the command nereid tune, and the same search for the GUI. It measures candidates of a model's
// configuration with package perf, in private servers that it starts, and searches them with package tune. It reads
// model_analyzer's configuration files and writes its tables.
package tunecmd
