// Package modelssample holds the sample model repository, and two of its models for the GUI. Its tests check what is
// committed: sizes, completeness, the form of the recorded requests (README.md) and the fonts of digits.
package modelssample

import (
	"embed"
	"io/fs"
)

//go:embed add_sub digits/1 digits/config.pbtxt digits/labels.txt digits/requests/*.json
var embedded embed.FS

// Embedded returns the sample models that are in the program, each in a folder: add_sub and digits.
func Embedded() fs.FS { return embedded }
