// Package modelconfig reads, defaults, completes and validates model configurations (config.pbtxt).
//
// A configuration goes through these steps, each a function of its own:
//
//	cfg, pos, faults := Parse("config.pbtxt", text)  // or ParseJSON
//	CompleteBackend(cfg, folder, versionFiles)       // name, platform and backend
//	Complete(cfg, signature, CompleteOptions{…})     // what the model file says
//	Validate(cfg, ValidateOptions{Positions: pos})   // all other faults
//	Normalize(cfg, NormalizeOptions{…})              // the defaults that Triton's /config shows
//
// Each but the last returns Faults; Parse and Validate report every fault they find, each with file, line, column and how to mend it.
// MarshalJSON writes a configuration as Triton's /config does, Format as a person would write the file.
//
// What a backend reads from a model file reaches this package as a Signature. The package opens no model
// file itself, touches the disk only through the fs.FS it is given, and starts no goroutine.
package modelconfig
