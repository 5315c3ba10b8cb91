package triton

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

var (
	errNoModels = status.New(status.Unsupported, "a cache, an agent and a batching strategy cannot use models here")
	// errNoMetrics has the text and the code of a Triton without metrics: libraries continue without them.
	errNoMetrics = status.New(status.Unsupported, "metrics not supported")
)

// libraryHost is the process of a cache, an agent or a strategy. It has no models, and metrics cannot be made in it.
type libraryHost struct{ log *slog.Logger }

var _ capi.Host = libraryHost{}

// Wake implements capi.Host.
func (libraryHost) Wake() {}

// Reserve implements capi.Host.
func (libraryHost) Reserve(int) *tensor.Buffer { return nil }

// Normalize implements capi.Host.
func (libraryHost) Normalize([]byte) ([]byte, error) {
	return nil, errNoModels
}

// Log implements capi.Host.
func (h libraryHost) Log(level slog.Level, file string, line int, text string) {
	h.log.Log(context.Background(), level, text, "file", filepath.Base(file), "line", line)
}

// Logs implements capi.Host.
func (h libraryHost) Logs(level slog.Level) bool { return level >= slog.LevelInfo }

// Live implements capi.Server.
func (libraryHost) Live() bool { return true }

// Ready implements capi.Server.
func (libraryHost) Ready() bool { return true }

// Infer implements capi.Server.
func (libraryHost) Infer(*infer.Request) error { return errNoModels }

// FindModel implements capi.Server.
func (libraryHost) FindModel(string, int64) (*capi.Priorities, error) { return nil, errNoModels }

// ModelReady implements capi.Server.
func (libraryHost) ModelReady(string, int64) (bool, error) { return false, errNoModels }

// ModelDecoupled implements capi.Server.
func (libraryHost) ModelDecoupled(string, int64) (bool, error) { return false, errNoModels }

// LoadModel implements capi.Server.
func (libraryHost) LoadModel(string, string, map[string][]byte) error { return errNoModels }

// UnloadModel implements capi.Server.
func (libraryHost) UnloadModel(string, bool) error { return errNoModels }

// Family implements capi.Metrics.
func (libraryHost) Family(capi.MetricKind, string, string) (uint64, error) { return 0, errNoMetrics }

// Metric implements capi.Metrics.
func (libraryHost) Metric(uint64, map[string]string, []float64) (uint64, error) {
	return 0, errNoMetrics
}

// DeleteMetric implements capi.Metrics.
func (libraryHost) DeleteMetric(uint64, bool) error { return errNoMetrics }

// MetricValue implements capi.Metrics.
func (libraryHost) MetricValue(uint64) (float64, error) { return 0, errNoMetrics }

// ChangeMetric implements capi.Metrics.
func (libraryHost) ChangeMetric(uint64, uint32, float64) {}

// hostedLibrary is an opened library in its process.
type hostedLibrary[Call any] interface {
	// handle does a call, whose message has data, and replies. The error is one of the connection.
	handle(server *messages, call Call, data []byte) error
	Close() error
}

// serveLibrary is the main function of such a process. The first message is a Setup, for which open opens the library;
// its reply has no data. All other messages are a Call. The process exits when the server closes the connection.
func serveLibrary[Setup, Call any](log *slog.Logger,
	open func(Setup, *slog.Logger) (hostedLibrary[Call], error)) error {
	server, err := toServer()
	if err != nil {
		return err
	}
	var setup Setup
	if _, err := server.receive(&setup); err != nil {
		return status.Errorf(status.Internal, "the first message of the server: %w", err)
	}
	library, err := open(setup, log)
	if failed := server.reply(nil, err); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	for {
		var call Call
		data, err := server.receive(&call)
		if errors.Is(err, io.EOF) {
			return library.Close()
		}
		if err != nil {
			return errors.Join(err, library.Close())
		}
		if err := library.handle(&server, call, data); err != nil {
			return err
		}
	}
}

// serverSocket is the file descriptor of the connection to the server.
const serverSocket = 3

// toServer returns the connection to the server, which stays open until the process exits.
func toServer() (m messages, err error) {
	file := os.NewFile(serverSocket, "server")
	conn, err := net.FileConn(file)
	if err != nil {
		return m, status.Errorf(status.Internal, "only the server starts such a process: %w", err)
	}
	_ = file.Close() // conn has a separate descriptor
	return newMessages(conn), nil
}

// reply sends data, or an error of the library.
func (m *messages) reply(data []byte, err error) error {
	if err != nil {
		return m.send(libraryReply{Code: int(status.CodeOf(err)), Text: err.Error()}, nil)
	}
	return m.send(libraryReply{Code: -1}, data)
}

// hostLibrary reads what a library needs, and makes this process its host. The caller opens the library. Errors: those
// of the file, and of what this machine lacks.
func hostLibrary(path string, log *slog.Logger) (dependencies, error) {
	needs, err := dependenciesOf(path)
	if err == nil {
		err = needs.check(path, capi.GlibcVersion())
	}
	if err == nil {
		capi.SetHost(libraryHost{log: log})
	}
	return needs, err
}
