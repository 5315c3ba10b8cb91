package triton

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/status"
)

// CacheWorkerName is the argument of "nereid worker" for the process of a cache library.
const CacheWorkerName = "triton-cache"

// cacheSocket is the file descriptor of the process that has the connection to the server.
const cacheSocket = 3

// cacheSetup is the first message to the process. Its reply has no data.
type cacheSetup struct {
	Library  string
	Settings map[string]string
}

// cacheCall asks for a key, or inserts the message's data if Insert is set. cacheReply has the library's error; Code is
// -1 for none.
type (
	cacheCall struct {
		Insert bool
		Key    string
	}
	cacheReply struct {
		Code int
		Text string
		Data []byte `json:"-"` // of the message
	}
)

// reply sends data, or an error of the library.
func (m *messages) reply(data []byte, err error) error {
	if err != nil {
		return m.send(cacheReply{Code: int(status.CodeOf(err)), Text: err.Error()}, nil)
	}
	return m.send(cacheReply{Code: -1}, data)
}

func (r *cacheReply) err() error {
	if r.Code < 0 {
		return nil
	}
	return status.New(status.Code(r.Code), r.Text)
}

// toServer returns the connection to the server, which stays until the process ends.
func toServer() (m messages, err error) {
	file := os.NewFile(cacheSocket, "server")
	conn, err := net.FileConn(file)
	if err != nil {
		return m, status.Errorf(status.Internal, "such a process is started by the server only: %w", err)
	}
	_ = file.Close() // conn has its own
	return newMessages(conn), nil
}

// ServeCache is the main function of a cache's process: "nereid worker triton-cache". It ends when the server closes
// the connection.
func ServeCache(_ context.Context, log *slog.Logger) error {
	server, err := toServer()
	if err != nil {
		return err
	}
	var setup cacheSetup
	if _, err := server.receive(&setup); err != nil {
		return status.Errorf(status.Internal, "the cache's settings: %w", err)
	}
	c, err := openCache(setup, log)
	if failed := server.reply(nil, err); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	for {
		var call cacheCall
		data, err := server.receive(&call)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, c.Close())
		}
		if call.Insert {
			err, data = c.Insert(call.Key, data), nil
		} else {
			data, err = c.Lookup(call.Key)
		}
		if err := server.reply(data, err); err != nil {
			return err
		}
	}
}

func openCache(s cacheSetup, log *slog.Logger) (*capi.Cache, error) {
	needs, err := hostLibrary(s.Library, log)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(s.Settings)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	return capi.OpenCache(s.Library, needs.api, string(config))
}
