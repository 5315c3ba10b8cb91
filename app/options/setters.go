package options

import (
	"fmt"
	"net/url"
	"os"
	goruntime "runtime"
	"strings"

	"nereid/app/certs"
	"nereid/app/listen"
	"nereid/app/newversion"
)

// Setters of single options.

func (c *Config) logVerbose(v string) error {
	if b, err := parseBool(v); err == nil {
		c.Log.Settings.Verbose = 0
		if b {
			c.Log.Settings.Verbose = 1
		}
		return nil
	}
	return integer(0, maxInt, &c.Log.Settings.Verbose)(v)
}

func (c *Config) grpcCompression(v string) error {
	var level string
	err := choice(&level, "none", "low", "medium", "high")(v)
	c.GRPC.CompressResponses = level != "none"
	return err
}

func (c *Config) responseCacheSize(v string) error {
	if v == "0" {
		if c.given["cache-config"] == "" {
			c.ResponseCache.Size = 0
		}
		return nil
	}
	return c.cacheSize(v, "cache-config")
}

// mutual is Triton's option for mutual TLS: whatever its value is, it turns TLS on.
func mutual(on *bool, files *certs.Files) setter {
	return func(v string) (err error) {
		files.Mutual, err = parseBool(v)
		*on = *on || err == nil
		return err
	}
}

// sharedPort refuses to share a port where the system cannot.
func sharedPort(field *bool) setter {
	return func(v string) error {
		if err := boolean(field)(v); err != nil || !*field || listen.CanSharePorts {
			return err
		}
		return fmt.Errorf("sharing a port between servers is not supported on %s", goruntime.GOOS)
	}
}

func (b *Backends) addModelEnv(v string) error {
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.Contains(name, "=") {
			return fmt.Errorf("%q is not the name of a variable; write NAME, or PREFIX_* for several", name)
		}
		b.Env = append(b.Env, name)
	}
	return nil
}

// setCrashInputs takes a folder that must exist, so that a mistyped one is noticed before the first crash.
func (b *Backends) setCrashInputs(v string) error {
	if info, err := os.Stat(v); err != nil || !info.IsDir() {
		return fmt.Errorf("%q is not a folder; make it, readable for yourself alone", v)
	}
	b.CrashInputs = v
	return nil
}

func (c *Config) newVersionFrom(v string) (err error) {
	c.NewVersion, err = newversion.ParseSource(v)
	return err
}

// commaList reads names with commas between them, and adds them.
func commaList(field *[]string) setter {
	return func(v string) error {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				*field = append(*field, name)
			}
		}
		return nil
	}
}

// allowedOrigins reads web sites as browsers name them: scheme, host and port, and nothing after them.
func (c *Config) allowedOrigins(v string) error {
	for o := range strings.SplitSeq(v, ",") {
		o = strings.TrimSpace(o)
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme == "" || u.Scheme+"://"+u.Host != o {
			return fmt.Errorf("%q is not the origin of a web site; write it as https://app.example or "+
				"http://localhost:3000 (there is no wildcard)", o)
		}
		if strings.Contains(u.Host, "*") {
			return fmt.Errorf("%q: there is no wildcard; name each site", o)
		}
		c.HTTP.AllowedOrigins = append(c.HTTP.AllowedOrigins, o)
	}
	return nil
}

func (c *Config) basePath(v string) error {
	if v != "" && !strings.HasPrefix(v, "/") {
		return fmt.Errorf("%q does not begin with a slash", v)
	}
	c.HTTP.BasePath = v
	return nil
}
