package triton

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/status"
)

const (
	// cacheTimeout is how long a call of a cache may take. Then its process is killed, because requests wait.
	cacheTimeout = 5 * time.Second
	// cachePause is the time before a process that failed is started again. Until then all lookups miss.
	cachePause = 5 * time.Second
)

// CacheOptions say which cache library runs, and how its process is started.
type CacheOptions struct {
	// Directory has a folder for each cache, as in Triton's --cache-directory.
	Directory string
	Name      string
	Settings  map[string]string // those of --cache-config=<name>,key=value
	Worker    []string          // the command, which must call ServeCache
	Env       []string          // names of variables that the process gets, in addition to those of models' processes
	Log       *slog.Logger
}

// Cache is a response cache in a library libtritoncache_<name>.so, which runs in a process. One call at a time runs in
// it. When the process fails, the models answer all requests, and it is started again after a pause. Its methods are
// safe for concurrent use. It starts no goroutines.
type Cache struct {
	cache.Identities
	o       CacheOptions
	library string

	mu      sync.Mutex
	process *libraryProcess // nil: the process does not run; guarded by mu, as are the next
	retry   time.Time       // when it may be started
	closed  bool
	stats   cache.Stats
}

var _ cache.Store = (*Cache)(nil)

// NewCache starts the process of a cache, which the caller closes. Errors: InvalidArg when there is no such library,
// and those of the library.
func NewCache(o CacheOptions) (*Cache, error) {
	c := &Cache{o: o}
	if strings.ContainsAny(o.Name, "/\x00") || strings.HasPrefix(o.Name, ".") {
		return nil, status.Errorf(status.InvalidArg, "%q is not a name of a cache", o.Name)
	}
	path, err := filepath.Abs(filepath.Join(o.Directory, o.Name, "libtritoncache_"+o.Name+suffix))
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, status.Errorf(status.InvalidArg, "the cache '%s' is not there: it needs the library %s, in the "+
			"folder of --cache-directory; the caches local and redis are built in", o.Name, path)
	}
	c.library = path
	if c.process, err = c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the process and initializes the cache in it.
func (c *Cache) start() (*libraryProcess, error) {
	p, err := startProcess(c.o.Worker, append([]string{"TRITONCACHE_*"}, c.o.Env...),
		cacheSetup{c.library, c.o.Settings})
	if err != nil {
		return nil, status.Errorf(status.CodeOf(err), "the cache '%s' cannot be used: %w", c.o.Name, err)
	}
	return p, nil
}

// do makes a call, and starts the process if it does not run. It reports false if there is no reply. c.mu is held.
func (c *Cache) do(call cacheCall, data []byte) (libraryReply, bool) {
	if c.closed || c.process == nil && time.Now().Before(c.retry) {
		return libraryReply{}, false
	}
	var err error
	if c.process == nil {
		if c.process, err = c.start(); err != nil {
			c.retry = time.Now().Add(cachePause)
			c.o.Log.Warn("a cache does not start again; the models answer", "cache", c.o.Name, "err", err)
			return libraryReply{}, false
		}
	}
	r, err := c.process.call(call, data, cacheTimeout)
	if err != nil {
		c.process.end()
		c.process, c.retry = nil, time.Now().Add(cachePause)
		c.o.Log.Error("a cache failed; the models answer until it is started again", "cache", c.o.Name, "err", err)
		return libraryReply{}, false
	}
	return r, true
}

// textOf returns a key for the library.
func textOf(k infer.CacheKey) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], k[0])
	binary.LittleEndian.PutUint64(b[8:], k[1])
	return hex.EncodeToString(b[:])
}

// Lookup asks the library. An error is a miss.
func (c *Cache) Lookup(k infer.CacheKey, start infer.Stamp) (*cache.Response, infer.Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var resp *cache.Response
	r, ok := c.do(cacheCall{Key: textOf(k)}, nil)
	switch err := r.err(); {
	case !ok:
	case err == nil:
		if resp, err = cache.Parse(r.Data); err != nil {
			c.o.Log.Warn("a cache returned something that is not a response", "cache", c.o.Name, "err", err)
		}
	case status.CodeOf(err) != status.NotFound:
		c.o.Log.Warn("a lookup in a cache failed", "cache", c.o.Name, "err", err)
	}
	end := infer.Now()
	c.stats.Lookups++
	c.stats.Lookup += end.Sub(start)
	if resp == nil {
		c.stats.Misses++
	} else {
		c.stats.Hits++
	}
	return resp, end
}

// Insert gives the library a copy of a response.
func (c *Cache) Insert(k infer.CacheKey, _ cache.Owner, resp *infer.Response) {
	start := infer.Now()
	data := cache.Append(nil, &cache.Response{Outputs: resp.Outputs, Parameters: resp.Parameters})
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.do(cacheCall{Insert: true, Key: textOf(k)}, data)
	if err := r.err(); ok && err != nil && status.CodeOf(err) != status.AlreadyExists {
		c.o.Log.Warn("a cache does not keep a response", "cache", c.o.Name, "err", err)
	}
	c.stats.Insertion += infer.Now().Sub(start)
}

// Stats returns the counts of this server.
func (c *Cache) Stats() cache.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Close finalizes the cache, and waits until its process has exited.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.process == nil {
		return nil
	}
	return c.process.finish()
}
