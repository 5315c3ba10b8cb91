// Package modelconfig reads, completes and validates model configurations (config.pbtxt), and fills in their defaults.
//
// A configuration goes through these steps, each a function:
//
//	cfg, pos, faults := Parse("config.pbtxt", text)  // or ParseJSON
//	CompleteBackend(cfg, folder, versionFiles)       // name, platform and backend
//	Complete(cfg, signature, CompleteOptions{…})     // from the model file
//	Validate(cfg, ValidateOptions{Positions: pos})   // all other faults
//	Normalize(cfg, NormalizeOptions{…})              // the defaults that Triton's /config shows
//
// Each but the last returns Faults. Parse and Validate report every fault, with file, line, column and a fix.
// MarshalJSON writes a configuration as Triton's /config does. Format writes it as a person would write the file.
//
// ChooseVersions (version.go) applies the version policy. ModelFiles (layout.go) says where a version's model file is.
// complete.go has the rules for max_batch_size and dims, normalize.go those for instance groups.
//
// Backends read model files and pass the result as a Signature. The package itself opens no model file, reads only
// from the fs.FS that it is given, and starts no goroutine.
package modelconfig
