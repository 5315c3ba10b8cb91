package triton

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/status"
	"nereid/engine/tensor"
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

// cacheCall asks for a key, or inserts Data if Insert is set. cacheReply has the library's error; Code is -1 for none.
type (
	cacheCall struct {
		Insert bool
		Key    string
		Data   []byte
	}
	cacheReply struct {
		Code int
		Text string
		Data []byte
	}
)

func replyOf(data []byte, err error) cacheReply {
	if err != nil {
		return cacheReply{Code: int(status.CodeOf(err)), Text: err.Error()}
	}
	return cacheReply{Code: -1, Data: data}
}

func (r *cacheReply) err() error {
	if r.Code < 0 {
		return nil
	}
	return status.New(status.Code(r.Code), r.Text)
}

// toServer returns the connection to the server, which stays until the process ends.
func toServer() (*gob.Decoder, *gob.Encoder, error) {
	file := os.NewFile(cacheSocket, "server")
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, nil, status.Errorf(status.Internal, "such a process is started by the server only: %w", err)
	}
	_ = file.Close() // conn has its own
	return gob.NewDecoder(conn), gob.NewEncoder(conn), nil
}

// ServeCache is the main function of a cache's process: "nereid worker triton-cache". It ends when the server closes
// the connection.
func ServeCache(_ context.Context, log *slog.Logger) error {
	in, out, err := toServer()
	if err != nil {
		return err
	}
	var setup cacheSetup
	if err := in.Decode(&setup); err != nil {
		return status.Errorf(status.Internal, "the cache's settings: %w", err)
	}
	c, err := openCache(setup, log)
	if failed := out.Encode(replyOf(nil, err)); failed != nil || err != nil {
		return errors.Join(err, failed)
	}
	for {
		var call cacheCall
		if err := in.Decode(&call); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, c.Close())
		}
		var data []byte
		if call.Insert {
			err = c.Insert(call.Key, call.Data)
		} else {
			data, err = c.Lookup(call.Key)
		}
		if err := out.Encode(replyOf(data, err)); err != nil {
			return err
		}
	}
}

func openCache(s cacheSetup, log *slog.Logger) (*capi.Cache, error) {
	needs, err := dependenciesOf(s.Library)
	if err != nil {
		return nil, err
	}
	if err := needs.check(s.Library, capi.GlibcVersion()); err != nil {
		return nil, err
	}
	config, err := json.Marshal(s.Settings)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	capi.SetHost(cacheHost{log: log})
	return capi.OpenCache(s.Library, needs.api, string(config))
}

// cacheHost is the process for a cache library, which has no server, no models and no metrics.
type cacheHost struct {
	capi.Server
	capi.Metrics
	log *slog.Logger
}

// Wake implements capi.Host.
func (cacheHost) Wake() {}

// Reserve implements capi.Host.
func (cacheHost) Reserve(int) *tensor.Buffer { return nil }

// Normalize implements capi.Host.
func (cacheHost) Normalize([]byte) ([]byte, error) {
	return nil, status.New(status.Unsupported, "a cache has no models")
}

// Log implements capi.Host.
func (h cacheHost) Log(level slog.Level, file string, line int, text string) {
	h.log.Log(context.Background(), level, text, "file", filepath.Base(file), "line", line)
}

// Logs implements capi.Host.
func (h cacheHost) Logs(level slog.Level) bool { return level >= slog.LevelInfo }
