// Package modelconfig reads, defaults, completes and validates model configurations (config.pbtxt).
//
// A configuration goes through these steps, each a function of its own:
//
//	cfg, pos, faults := Parse("config.pbtxt", text) // or ParseJSON
//	Complete(cfg, signature, CompleteOptions{…})    // name, backend, what the model file says
//	Normalize(cfg, NormalizeOptions{…})             // the defaults that Triton's /config shows
//	faults = append(faults, Validate(cfg, ValidateOptions{Positions: pos, …})...)
//
// Parse and Validate report every fault they find, each with file, line, column and how to mend it.
// MarshalJSON writes a configuration as Triton's /config does, Format as a person would write the file.
//
// What a backend reads from a model file reaches this package as a Signature. The package opens no model
// file itself, touches the disk only through the fs.FS it is given, and starts no goroutine.
package modelconfig
