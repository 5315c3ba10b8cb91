package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/backend/onnxruntime"
	"nereid/engine/backend/python"
	"nereid/engine/backend/runtime"
	"nereid/engine/cache/redis"
	"nereid/engine/modelconfig"
)

// backendConfig reads "[backend,]key=value", a value of --backend-config.
func (c *Config) backendConfig(v string) error {
	name, setting, ok := strings.Cut(v, ",")
	if !ok {
		name, setting = "", v
	}
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not of the form [backend,]key=value", v)
	}
	settings := c.Backends.Libraries[name]
	put(&settings, key, value)
	put(&c.Backends.Libraries, name, settings)
	switch {
	case key == "default-max-batch-size":
		return c.defaultMaxBatchSize(name, value)
	case name == "":
		return c.globalBackendConfig(key, value)
	case name == "onnxruntime":
		if err := c.Backends.ONNXRuntime.Settings.Set(key, value); !errors.Is(err, onnxruntime.ErrUnknownSetting) {
			return err
		}
	case name == "python":
		return c.setPython(key, value)
	}
	if !slices.Contains(runtime.Names(), name) && name != "onnxruntime" && name != "python" {
		return nil
	}
	if !runtime.Known(name, key) {
		c.WithoutEffect = append(c.WithoutEffect, "backend-config "+name+","+key)
		return nil
	}
	settings = c.Backends.Frameworks[name]
	put(&settings, key, value)
	put(&c.Backends.Frameworks, name, settings)
	return runtime.CheckSetting(name, key, value)
}

func (c *Config) defaultMaxBatchSize(backend, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > modelconfig.MaxBatchSizeLimit {
		return fmt.Errorf("%q is not a batch size; use a whole number from 0 to %d", value,
			modelconfig.MaxBatchSizeLimit)
	}
	if backend == "" {
		c.Engine.DefaultMaxBatchSize = &n
	} else {
		put(&c.Engine.DefaultMaxBatchSizes, backend, n)
	}
	return nil
}

// globalBackendConfig takes a setting of all backends. Most are also options. The names are from Triton's core,
// src/backend_config.cc.
func (c *Config) globalBackendConfig(key, value string) error {
	switch key {
	case "backend-directory":
		c.Backends.Directory = value
		return nil
	case "min-compute-capability":
		return capability(&c.GPUs.MinCapability)(value)
	case "auto-complete-config":
		return not(&c.Engine.DisableAutoComplete)(value)
	}
	if gpu, ok := strings.CutPrefix(key, "model-load-gpu-limit-device-"); ok {
		return c.gpuLimit()(gpu + ":" + value)
	}
	c.WithoutEffect = append(c.WithoutEffect, "backend-config "+key+" (beyond the libraries of backends, which get it)")
	return nil
}

// setPython takes a setting of --backend-config=python.
func (c *Config) setPython(key, value string) error {
	known, effect := python.Known(key)
	if known && effect {
		put(&c.Backends.Python.Settings, key, value)
		return python.CheckSetting(key, value)
	}
	why := ""
	if known {
		why = " (the memory that is shared with a model's process has no name, and needs neither queues nor threads)"
	}
	c.WithoutEffect = append(c.WithoutEffect, "backend-config python,"+key+why)
	return nil
}

// ResponseCache says where responses are cached. The zero value: nowhere.
type ResponseCache struct {
	Size  int64             // bytes of the cache in this process; 0: there is none
	Redis map[string]string // settings of the cache in a Redis server; nil: there is none
	// Library is the name of a cache library in Directory, with its settings; "": there is none.
	Library   string
	Settings  map[string]string
	Directory string
}

// On reports whether there is a cache.
func (r *ResponseCache) On() bool { return r.Size > 0 || r.Redis != nil || r.Library != "" }

// cacheConfig reads "<cache>,<key>=<value>", a value of --cache-config.
func (c *Config) cacheConfig(v string) error {
	if v == "" {
		return nil
	}
	name, setting, ok := strings.Cut(v, ",")
	key, value, has := strings.Cut(setting, "=")
	switch {
	case !ok || !has:
		return fmt.Errorf("%q is not of the form cache,key=value, such as local,size=1048576", v)
	case name == "redis":
		return c.ResponseCache.setRedis(key, value)
	case name != "local":
		return c.ResponseCache.setLibrary(name, key, value)
	case key != "size":
		return fmt.Errorf("the local cache has no setting %q; it has size", key)
	}
	return c.cacheSize(value, "response-cache-byte-size")
}

// setLibrary adds a setting of a cache library. The start of the server checks whether it is there.
func (r *ResponseCache) setLibrary(name, key, value string) error {
	switch {
	case name == "":
		return errors.New("the cache has no name; write local,size=<bytes>, redis,host=<name> or <name>,key=value")
	case r.Size > 0 || r.Redis != nil || r.Library != "" && r.Library != name:
		return errors.New("there is another response cache already; leave one of the two out")
	}
	r.Library = name
	put(&r.Settings, key, value)
	return nil
}

// setRedis adds a setting of the Redis cache. The start of the server checks whether all needed ones are there.
func (r *ResponseCache) setRedis(key, value string) error {
	if r.Size > 0 || r.Library != "" {
		return errors.New("the response cache is another one already; leave one of the two out")
	}
	put(&r.Redis, key, value)
	if key == "cert" || key == "key" { // these two need each other
		return nil
	}
	return redis.Check(map[string]string{"host": "localhost", key: value})
}

// cacheSize sets the size of the local cache. Only one of two options may set it; other is the other one.
func (c *Config) cacheSize(v, other string) error {
	if c.given[other] != "" && c.given[other] != "0" {
		return errors.New("the response cache is set by --" + other + " already; leave one of the two out")
	}
	if c.ResponseCache.Redis != nil || c.ResponseCache.Library != "" {
		return errors.New("the response cache is in a redis server or a library already; leave one of the two out")
	}
	const most = 32<<40 - 1
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > most {
		return fmt.Errorf("size %q is not a number of bytes from 1 to %d", v, int64(most))
	}
	c.ResponseCache.Size = n
	return nil
}
