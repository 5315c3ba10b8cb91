package triton

import (
	"context"
	"encoding/json"
	"log/slog"

	"nereid/engine/backend/triton/capi"
	"nereid/engine/status"
)

// CacheWorkerName is the argument of "nereid worker" for the process of a cache library.
const CacheWorkerName = "triton-cache"

// cacheSetup is the first message to the process.
type cacheSetup struct {
	Library  string
	Settings map[string]string
}

// cacheCall asks for a key, or inserts the message's data if Insert is set.
type cacheCall struct {
	Insert bool
	Key    string
}

// ServeCache is the main function of a cache's process: "nereid worker triton-cache".
func ServeCache(_ context.Context, log *slog.Logger) error { return serveLibrary(log, openCache) }

func openCache(s cacheSetup, log *slog.Logger) (hostedLibrary[cacheCall], error) {
	needs, err := hostLibrary(s.Library, log)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(s.Settings)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	c, err := capi.OpenCache(s.Library, needs.api, string(config))
	return hostedCache{c}, err
}

type hostedCache struct{ *capi.Cache }

func (c hostedCache) handle(server *messages, call cacheCall, data []byte) error {
	if call.Insert {
		return server.reply(nil, c.Insert(call.Key, data))
	}
	return server.reply(c.Lookup(call.Key))
}
