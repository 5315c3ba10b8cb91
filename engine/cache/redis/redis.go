// Package redis keeps responses in a Redis server that several servers may share: Triton's redis cache. A key depends
// on the version's files, its configuration and the request, so versions with other files do not share responses.
//
// One goroutine stores responses, after the client has its response. Close ends it. If it cannot keep up, responses
// are not stored. While the Redis server fails, it is used once per retryInterval, and the models answer all requests.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/redis/go-redis/v9"

	"nereid/engine/cache"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/system/glob"
)

const (
	// prefix is that of all keys. It contains the version of the format.
	prefix = "nereid:1:"
	// maxQueued and maxQueuedBytes limit the responses that wait to be stored.
	maxQueued      = 256
	maxQueuedBytes = 64 << 20
)

// settings are those of --cache-config=redis,key=value, with Triton's names.
type settings struct {
	options        client.Options
	host           string
	port           int
	tls            bool
	cert, key, sni string
	ca, caDir      string
}

// boolean reads what the server's options of that type take.
func boolean(v string) (bool, error) {
	switch v = strings.ToLower(v); v {
	case "on", "off":
		return v == "on", nil
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, errors.New("it is not a boolean; use true, on or 1, or false, off or 0")
	}
	return on, nil
}

func (s *settings) setPort(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n == 0 {
		return errors.New("it is not a number from 1 to 65535")
	}
	s.port = int(n)
	return nil
}

// parse reads settings. Errors: InvalidArg.
func parse(all map[string]string) (*settings, error) {
	s := &settings{port: 6379}
	o := &s.options
	// Retries could make a lookup slower than the model.
	o.MaxRetries, o.PoolSize, o.PoolTimeout = -1, 1, time.Second
	o.Username, o.Password = os.Getenv("TRITONCACHE_REDIS_USERNAME"), os.Getenv("TRITONCACHE_REDIS_PASSWORD")
	ms := func(d *time.Duration) func(string) error {
		return func(v string) error {
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil || n < 0 {
				return errors.New("it is not a number of milliseconds")
			}
			*d = time.Duration(n) * time.Millisecond
			return nil
		}
	}
	number := func(at *int, least int) func(string) error {
		return func(v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < least {
				return fmt.Errorf("it is not a number from %d on", least)
			}
			*at = n
			return nil
		}
	}
	text := func(at *string) func(string) error { return func(v string) error { *at = v; return nil } }
	known := map[string]func(string) error{
		"host": text(&s.host), "port": s.setPort, "db": number(&o.DB, 0),
		"user": text(&o.Username), "password": text(&o.Password),
		"connect_timeout": ms(&o.DialTimeout), "wait_timeout": ms(&o.PoolTimeout), "pool_size": number(&o.PoolSize, 1),
		"socket_timeout": func(v string) error {
			err := ms(&o.ReadTimeout)(v)
			o.WriteTimeout = o.ReadTimeout
			return err
		},
		"tls_enabled": func(v string) (err error) { s.tls, err = boolean(v); return err },
		"cert":        text(&s.cert), "key": text(&s.key), "sni": text(&s.sni),
		"cacert": text(&s.ca), "cacert_dir": text(&s.caDir),
	}
	for name, value := range all {
		set := known[name]
		if set == nil {
			return nil, status.Errorf(status.InvalidArg, "cache-config redis,%s=%s: there is no such setting; the "+
				"redis cache has host, port, user, password, db, connect_timeout, socket_timeout, pool_size, "+
				"wait_timeout, tls_enabled, cert, key, cacert, cacert_dir and sni", name, value)
		}
		if err := set(value); err != nil {
			shown := value
			if name == "password" {
				shown = "..."
			}
			return nil, status.Errorf(status.InvalidArg, "cache-config redis,%s=%s: %w", name, shown, err)
		}
	}
	if s.host == "" {
		return nil, status.New(status.InvalidArg, "the redis cache needs a host: --cache-config=redis,host=<name>")
	}
	o.Addr = net.JoinHostPort(s.host, strconv.Itoa(s.port))
	o.DialTimeout = cmp.Or(o.DialTimeout, time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Second)
	return s, s.openTLS()
}

func (s *settings) openTLS() error {
	if !s.tls {
		return nil
	}
	c := &tls.Config{ServerName: cmp.Or(s.sni, s.host), MinVersion: tls.VersionTLS12}
	if s.cert != "" || s.key != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return status.Errorf(status.InvalidArg, "cache-config redis,cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if err := s.authorities(c); err != nil {
		return err
	}
	s.options.TLSConfig = c
	return nil
}

// authorities sets those of cacert and cacert_dir. As in OpenSSL, what else is in the folder does not matter.
func (s *settings) authorities(c *tls.Config) error {
	if s.ca == "" && s.caDir == "" {
		return nil // those of the system
	}
	c.RootCAs = x509.NewCertPool()
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return status.Errorf(status.InvalidArg, "cache-config redis,cacert: %w", err)
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return status.Errorf(status.InvalidArg, "cache-config redis,cacert: %s has no certificate", s.ca)
		}
	}
	found := s.caDir == ""
	for _, file := range glob.In(s.caDir, "*") {
		if text, err := os.ReadFile(file); err == nil && c.RootCAs.AppendCertsFromPEM(text) {
			found = true
		}
	}
	if !found {
		return status.Errorf(status.InvalidArg, "cache-config redis,cacert_dir: %s has no certificate", s.caDir)
	}
	return nil
}

// Check reports whether settings are valid. Errors: InvalidArg.
func Check(all map[string]string) error {
	_, err := parse(all)
	return err
}

// Cache is a store in a Redis server. Its methods are safe for concurrent use.
type Cache struct {
	cache.Identities
	c     *client.Client
	log   *slog.Logger
	queue chan insertion
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	done  chan struct{}

	retryAt    atomic.Int64 // infer.Stamp until which a server that failed is not used; 0: it works
	queued     atomic.Int64 // bytes that wait to be stored
	hits       atomic.Int64
	misses     atomic.Int64
	lookupTime atomic.Int64 // nanoseconds of all lookups
	insertTime atomic.Int64
}

var _ cache.Store = (*Cache)(nil)

// insertion is a response that waits to be stored.
type insertion struct {
	key  string
	resp cache.Response
	size int64
}

// New returns a cache. The Redis server need not be running yet. The caller closes the cache. Errors: InvalidArg.
func New(all map[string]string, log *slog.Logger) (*Cache, error) {
	s, err := parse(all)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client.SetLogger(silent{}) // errors are logged here, once
	c := &Cache{c: client.NewClient(&s.options), log: log, queue: make(chan insertion, maxQueued),
		done: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	go c.store()
	return c, nil
}

// silent discards the client's log lines.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Close closes the connections. Queued responses are not stored.
func (c *Cache) Close() error {
	c.stop()
	<-c.done
	return c.c.Close()
}

// Lookup looks a response up in the server. An error is a miss.
func (c *Cache) Lookup(k infer.CacheKey, start infer.Stamp) (*cache.Response, infer.Stamp) {
	resp := c.find(k)
	if resp == nil {
		c.misses.Add(1)
	} else {
		c.hits.Add(1)
	}
	end := infer.Now()
	c.lookupTime.Add(int64(end.Sub(start)))
	return resp, end
}

func (c *Cache) find(k infer.CacheKey) *cache.Response {
	if !c.available() {
		return nil
	}
	b, err := c.c.Get(c.ctx, name(k)).Bytes()
	if errors.Is(err, client.Nil) {
		c.succeeded()
		return nil
	}
	if err != nil {
		c.failed("look up", err)
		return nil
	}
	c.succeeded()
	resp, err := cache.Parse(b)
	if err != nil {
		c.log.Warn("an entry of the redis cache is not a response; the model answers", "error", err)
		return nil
	}
	return resp
}

// Insert queues a copy of a response to be stored. It drops the response if the queue is full.
func (c *Cache) Insert(k infer.CacheKey, _ cache.Owner, resp *infer.Response) {
	if !c.available() {
		return
	}
	s := insertion{key: name(k), resp: cache.Copy(resp)}
	for i := range s.resp.Outputs {
		s.size += int64(len(s.resp.Outputs[i].Data))
	}
	if c.queued.Add(s.size) <= maxQueuedBytes {
		select {
		case c.queue <- s:
			return
		default:
		}
	}
	c.queued.Add(-s.size)
}

// store stores the queued responses. First it asks whether the server can be used: a wrong address or password is in
// the log before the first request.
func (c *Cache) store() {
	defer close(c.done)
	if err := c.c.Ping(c.ctx).Err(); err != nil && c.ctx.Err() == nil {
		c.failed("look up", err)
	}
	var b []byte
	for {
		select {
		case <-c.ctx.Done():
			return
		case s := <-c.queue:
			start := infer.Now()
			b = cache.Append(b[:0], &s.resp)
			err := c.c.Set(c.ctx, s.key, b, 0).Err()
			c.queued.Add(-s.size)
			c.insertTime.Add(int64(infer.Now().Sub(start)))
			if err != nil && c.ctx.Err() == nil {
				c.failed("store", err)
			}
			if cap(b) > 1<<20 {
				b = nil
			}
		}
	}
}

// Stats returns the counts of this process.
func (c *Cache) Stats() cache.Stats {
	s := cache.Stats{
		Hits: uint64(c.hits.Load()), Misses: uint64(c.misses.Load()),
		Lookup: time.Duration(c.lookupTime.Load()), Insertion: time.Duration(c.insertTime.Load()),
	}
	s.Lookups = s.Hits + s.Misses
	return s
}

func name(k infer.CacheKey) string {
	var b [16]byte
	for i, half := range k {
		binary.LittleEndian.PutUint64(b[8*i:], half)
	}
	return prefix + hex.EncodeToString(b[:])
}

// available reports whether the server may be used. It is false for retryInterval after an error.
func (c *Cache) available() bool {
	at := c.retryAt.Load()
	return at == 0 || int64(infer.Now()) >= at
}

// succeeded notes that the server works, and logs it after an error.
func (c *Cache) succeeded() {
	if c.retryAt.Load() != 0 && c.retryAt.Swap(0) != 0 {
		c.log.Info("the redis cache answers again")
	}
}

// failed notes an error, and logs the first one.
func (c *Cache) failed(what string, err error) {
	if c.retryAt.Swap(int64(infer.Now())+int64(retryInterval)) == 0 {
		c.log.Warn("the redis cache cannot "+what+" responses; the models answer until it can", "error", err)
	}
}
