package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
)

// shell is the window around a server, as far as the server knows it. All fields are needed.
type shell struct {
	// pick opens the system's dialog for a file or a folder; "" when it was cancelled.
	pick func(ctx context.Context, folder bool) (string, error)
	// keep tells the window whether it hides when it is closed, in place of ending the program.
	keep func(bool)
	// wrap adds to the console what only a program with a window answers.
	wrap func(http.Handler) http.Handler
	// opened is called once, when the console answers at addr and before the models are loaded. dataDir is locked.
	opened func(log *slog.Logger, dataDir string, addr net.Addr) error
	// closing is called while the lock of the data folder is still held, at the very end; also without opened.
	closing func()
}
