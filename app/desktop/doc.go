// Package desktop shows the GUI in a window of its own, with Wails.
//
// The window carries the page, never the interface: Wails' asset server gives out only the page's static files, and
// every call of the page goes over loopback to the same console that a browser uses, for two reasons. A request body
// that is a Blob kills a process whose asset server takes it (an open fault of Wails on Linux), and the number of
// asset-server requests stays small.
//
// Only files with the build tag desktop (or dev, bindings) link GTK; without it the package still has what needs no
// window, so that it can be tested anywhere: the hand-over to a running program, the page's handler, the language.
//
// Goroutines: Window.Run has one that waits for its context, and one for the first sign of life of the page; both end
// with it. Callbacks come from Wails' own.
package desktop
