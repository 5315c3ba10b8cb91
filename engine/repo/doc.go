// Package repo looks at model repositories and says what is in them and what changed.
//
// A repository is a folder of model folders: <model>/[config.pbtxt][labels...][configs/*.pbtxt]/<version>/<files>.
// A version is a folder whose name is a positive decimal number without a leading zero. Nothing is read but folder
// entries and, on demand, the configuration. Goroutines: Watch starts one, which ends with its context.
package repo
