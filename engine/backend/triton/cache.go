package triton

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/worker/process"
)

const (
	// cacheTimeout is how long a call of a cache may take. Then its process is ended, because requests wait.
	cacheTimeout = 5 * time.Second
	// cacheStartTimeout is how long the start of a cache may take.
	cacheStartTimeout = time.Minute
	// cachePause is how long a process that failed is not started again. Until then all lookups miss.
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

	mu     sync.Mutex
	conn   *cacheConn // nil: the process does not run; guarded by mu, as are the next
	retry  time.Time  // when it may be started
	closed bool
	stats  cache.Stats
}

var _ cache.Store = (*Cache)(nil)

// cacheConn is the connection to a process.
type cacheConn struct {
	cmd  *exec.Cmd
	conn net.Conn
	messages
}

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
	if c.conn, err = c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the process and initializes the cache in it.
func (c *Cache) start() (*cacheConn, error) {
	p, err := startProcess(c.o.Worker, append([]string{"TRITONCACHE_*"}, c.o.Env...),
		cacheSetup{c.library, c.o.Settings})
	if err != nil {
		return nil, status.Errorf(status.CodeOf(err), "the cache '%s' cannot be used: %w", c.o.Name, err)
	}
	return p, nil
}

// startProcess starts a process and sends it the first message. env has names of variables that the process gets.
func startProcess(worker, env []string, setup any) (*cacheConn, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "no connection to a process: %w", err)
	}
	own, other := os.NewFile(uintptr(pair[0]), "library"), os.NewFile(uintptr(pair[1]), "server")
	defer own.Close()
	defer other.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	cmd := exec.Command(worker[0], worker[1:]...)
	cmd.Env = process.Environ(os.Environ(), env)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{other} // file descriptor 3
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, status.Errorf(status.Unavailable, "its process cannot be started: %w", err)
	}
	p := &cacheConn{cmd, conn, newMessages(conn)}
	reply, err := p.call(setup, nil, cacheStartTimeout)
	if err == nil {
		err = reply.err()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// call sends a message with data and returns the reply. An error is one of the connection: the process must be ended
// then.
func (p *cacheConn) call(message any, data []byte, timeout time.Duration) (r cacheReply, err error) {
	if err = p.conn.SetDeadline(time.Now().Add(timeout)); err == nil {
		if err = p.send(message, data); err == nil {
			r.Data, err = p.receive(&r)
		}
	}
	if err != nil {
		return r, status.Errorf(status.Unavailable, "its process has ended or does not answer: %w", err)
	}
	return r, nil
}

func (p *cacheConn) end() {
	_ = p.conn.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed, or has ended by itself
}

// do makes a call, and starts the process if it does not run. It reports false if there is no reply. c.mu is held.
func (c *Cache) do(call cacheCall, data []byte) (cacheReply, bool) {
	if c.closed || c.conn == nil && time.Now().Before(c.retry) {
		return cacheReply{}, false
	}
	var err error
	if c.conn == nil {
		if c.conn, err = c.start(); err != nil {
			c.retry = time.Now().Add(cachePause)
			c.o.Log.Warn("a cache does not start again; the models answer", "cache", c.o.Name, "err", err)
			return cacheReply{}, false
		}
	}
	r, err := c.conn.call(call, data, cacheTimeout)
	if err != nil {
		c.conn.end()
		c.conn, c.retry = nil, time.Now().Add(cachePause)
		c.o.Log.Error("a cache failed; the models answer until it is started again", "cache", c.o.Name, "err", err)
		return cacheReply{}, false
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

// Close has the library finalize the cache, and ends the process.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn == nil {
		return nil
	}
	return c.conn.finish()
}

// finish has the process finalize its library and end.
func (p *cacheConn) finish() error {
	_ = p.conn.Close()
	kill := time.AfterFunc(cacheTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return status.Errorf(status.Internal, "the process of the library %s: %w", p.cmd.Path, err)
	}
	return nil
}
