// Package repo reads model repositories and finds changes in them.
//
// A repository is a folder of model folders: <model>/[config.pbtxt][labels...][configs/*.pbtxt]/<version>/<files>. The
// name of a version folder is a positive decimal number without a leading zero. The package reads only folder entries
// and, on demand, the configuration. Watch starts one goroutine, which ends with its context.
package repo
