package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nereid/engine/cache/redis"
)

// cacheConfig reads "<cache>,<key>=<value>".
func cacheConfig(c *Config, v string) error {
	if v == "" {
		return nil
	}
	name, setting, ok := strings.Cut(v, ",")
	key, value, has := strings.Cut(setting, "=")
	switch {
	case !ok || !has:
		return fmt.Errorf("%q is not of the form cache,key=value, such as local,size=1048576", v)
	case name == "redis":
		return cacheRedis(c, key, value)
	case name != "local":
		return fmt.Errorf("the cache %q is not supported; use local,size=<bytes> or redis,host=<name>", name)
	case key != "size":
		return fmt.Errorf("the local cache has no setting %q; it has size", key)
	}
	return cacheSize(c, value, "response-cache-byte-size")
}

// cacheRedis adds a setting of the redis cache. Whether they are all there is seen when the server starts.
func cacheRedis(c *Config, key, value string) error {
	if c.CacheSize > 0 {
		return errors.New("the response cache is a local one already; leave one of the two out")
	}
	if c.CacheRedis == nil {
		c.CacheRedis = map[string]string{}
	}
	one := map[string]string{"host": "localhost", key: value}
	if key != "cert" && key != "key" { // these two need each other
		if err := redis.Check(one); err != nil {
			return err
		}
	}
	c.CacheRedis[key] = value
	return nil
}

func responseCacheSize(c *Config, v string) error {
	if v == "0" {
		return nil
	}
	return cacheSize(c, v, "cache-config")
}

// cacheSize sets the size, which only one of the two options may say.
func cacheSize(c *Config, v, other string) error {
	if c.given[other] != "" && c.given[other] != "0" {
		return errors.New("the response cache is set by --" + other + " already; leave one of the two out")
	}
	if c.CacheRedis != nil {
		return errors.New("the response cache is in a redis server already; leave one of the two out")
	}
	n, err := strconv.ParseInt(v, 10, 46)
	if err != nil || n <= 0 {
		return fmt.Errorf("size %q is not a number of bytes over 0", v)
	}
	c.CacheSize = int(n)
	return nil
}
