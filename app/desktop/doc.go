// Package desktop shows the GUI in a native window, with Wails.
//
// Wails' asset server serves only the static files of the page. Every call of the page goes over loopback to the
// console that a browser uses too. There are two reasons. A request body that is a Blob crashes a process whose asset
// server handles it (an open fault of Wails on Linux). And the number of asset-server requests stays small.
//
// Only files with the build tag desktop (or dev, bindings) link GTK; the other files need no window and can be tested
// anywhere: the hand-over to a running program, the page's handler, the language.
//
// icon.go decides what the icon in the tray shows; package tray draws it.
//
// Goroutines: Window.Run has one that waits for its context, and one that waits for the first call of the page. Both
// end with Run. Wails calls back from its own goroutines.
package desktop
