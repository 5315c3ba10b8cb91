package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"nereid/app/desktop"
	"nereid/engine"
)

// shell is the window around a server, as the server sees it. All fields are required.
type shell struct {
	// pick opens the system's dialog for a file or a folder. It returns "" if the user cancels.
	pick func(ctx context.Context, folder bool) (string, error)
	// keep sets whether the window hides when it is closed, instead of ending the program.
	keep func(bool)
	// notify shows a notification of the system. It does not wait.
	notify func(title, text string)
	// configure tells the window of its settings, before it opens.
	configure func(*desktop.Settings)
	// serves tells the window of the engine, before models are loaded.
	serves func(*engine.Engine)
	// changed tells it that the state of a model has changed. It does not wait.
	changed func()
	// wrap adds to the console the routes that only a program with a window has.
	wrap func(http.Handler) http.Handler
	// opened is called once, when the console serves at addr and before models are loaded. dataDir is locked.
	opened func(log *slog.Logger, dataDir string, addr net.Addr) error
	// closing is called last, while the data folder is still locked. It is called even if opened was not.
	closing func()
}
