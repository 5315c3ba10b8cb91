// Package capture keeps what requests and responses contain, for models for which an administrator asked for it. It is
// off unless asked for.
//
// The contents of a request are one file in the data folder, which only the server's user can read. Run needs one
// goroutine, which the caller starts; the package starts none.
//
// Files: recorder.go decides what is captured, contents.go applies the rules that redact tensors and parameters
// (Settings.LeaveOut), and folders.go keeps the files and their budget.
package capture
