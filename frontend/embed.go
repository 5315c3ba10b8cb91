// Package frontend holds the built page of the GUI.
//
// The page is built by npm (see package.json) into dist, which is not committed except for .gitkeep, so that a
// checkout without Node compiles too; FS then has no index.html, and the console says how to build it.
package frontend

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built page: index.html and its assets at the root.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("frontend: the embedded folder dist has an invalid name: " +
			err.Error()) // cannot happen: the name is constant
	}
	return sub
}
