package options

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"nereid/app/listen"
)

// ModelMesh says where ModelMesh reaches its service, and what it may do.
type ModelMesh struct {
	Network, Address string // of net.Listen; "": there is no service
	AllowCode        bool
}

func (o *ModelMesh) options() []option {
	return []option{
		opt("modelmesh-address", "unix:path|address:port",
			"Where ModelMesh loads and unloads models, by the service mmesh.ModelRuntime: a Unix socket, or a port of "+
				"a loopback address. There is no token: whoever reaches it decides which models are served. Default: "+
				"nowhere.",
			o.address),
		opt("modelmesh-allow-code", "",
			"ModelMesh may load models that run code, such as Python models.", flag(&o.AllowCode)),
	}
}

func (o *ModelMesh) address(v string) error {
	if path, ok := strings.CutPrefix(v, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not the path of a socket, such as unix:/tmp/mmesh.sock", v)
		}
		o.Network, o.Address = "unix", path
		return nil
	}
	host, _, _ := net.SplitHostPort(v)
	if hostPort(&o.Address)(v) != nil || !listen.IsLoopback(host) {
		return fmt.Errorf("%q is neither unix:path nor a loopback address with a port, such as 127.0.0.1:8085", v)
	}
	o.Network = "tcp"
	return nil
}

// Endpoint returns the address of the service. Network is "tcp".
func (o *ModelMesh) Endpoint() listen.Endpoint {
	return endpoint("modelmesh-address", "ModelMesh service", o.Address)
}

func (o *ModelMesh) check(catalog bool) error {
	if o.AllowCode && o.Address == "" {
		return errors.New("--modelmesh-allow-code: works only with --modelmesh-address")
	}
	if o.Address != "" && catalog {
		return errors.New("--modelmesh-address: does not work with --catalog")
	}
	return nil
}
