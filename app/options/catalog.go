package options

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"nereid/app/download"
	"nereid/app/listen"
)

// Catalog says which platform decides which models are served, and what this node gives it.
type Catalog struct {
	URL       *url.URL // nil: none
	Node      string   // "": a name is made
	TokenFile string   // "": none
	Interval  time.Duration
	Peer      string // the address at which other nodes get files; "": none
	AllowCode bool
	ModelMesh ModelMesh // another platform
}

const catalogOption = "catalog"

func (c *Config) catalogOptions() []option {
	o := &c.Catalog
	return []option{
		opt(catalogOption, "url",
			"A platform that says which models this node serves, by docs/examples/catalog/openapi.yaml. Other models "+
				"stay as they are. Default: none.", catalogURL(&o.URL)),
		opt("catalog-node", "name",
			"The name of this node. Default: that of the machine with some letters, kept in the data folder.",
			catalogNode(&o.Node)),
		opt("catalog-token-file", "path",
			"The file with the token that the platform knows. It is read again for each request.", text(&o.TokenFile)),
		opt("catalog-interval-secs", "seconds",
			"The time between two reports to the platform, and between two questions if it does not wait for a "+
				"change. Default: 10.", seconds(&o.Interval)),
		opt("catalog-peer", "address:port",
			"Where other nodes of the catalog get the files that this one has, over HTTP without TLS. They need the "+
				"token of the catalog. Default: nowhere.", hostPort(&o.Peer)),
		opt("catalog-allow-code", "",
			"Takes models of the catalog that run code when they are loaded, such as Python models.",
			flag(&o.AllowCode)),
	}
}

// catalogURL reads the URL of a platform. Whoever answers there decides which models run, so TLS is needed.
func catalogURL(field **url.URL) setter {
	return func(v string) error {
		u, err := url.Parse(v)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("it is no URL such as https://platform.example/catalog")
		}
		if err := download.CheckScheme(u); err != nil {
			return err
		}
		*field = u
		return nil
	}
}

var catalogNodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func catalogNode(field *string) setter {
	return func(v string) error {
		if !catalogNodeName.MatchString(v) {
			return fmt.Errorf("%q is not a name of at most 128 letters, digits, dots, dashes and underscores", v)
		}
		*field = v
		return nil
	}
}

func hostPort(field *string) setter {
	return func(v string) error {
		host, at, err := net.SplitHostPort(v)
		var n int
		if err != nil || host == "" || port(&n)(at) != nil {
			return fmt.Errorf("%q is not an address with a port, such as 10.0.0.7:8010", v)
		}
		*field = v
		return nil
	}
}

// endpoints are the services of platforms that have a port. The platforms' packages open it.
func (o *Catalog) endpoints() []listen.Endpoint {
	var out []listen.Endpoint
	if o.Peer != "" {
		out = append(out, o.PeerEndpoint())
	}
	if o.ModelMesh.Network == "tcp" {
		out = append(out, o.ModelMesh.Endpoint())
	}
	return out
}

// PeerEndpoint returns the address of the catalog's peers. Peer is not empty.
func (o *Catalog) PeerEndpoint() listen.Endpoint {
	return endpoint("catalog-peer", "catalog peer service", o.Peer)
}

// endpoint returns the endpoint of an option that is an address with a port.
func endpoint(option, title, address string) listen.Endpoint {
	host, at, _ := net.SplitHostPort(address) // the option was checked
	n, _ := strconv.Atoi(at)
	return listen.Endpoint{Option: option, Title: title, Address: host, Port: n, On: true, Whole: true}
}

// checkCatalog checks what concerns several options.
func (c *Config) checkCatalog() error {
	var errs []error
	if c.Catalog.URL == nil {
		for _, name := range []string{"node", "token-file", "interval-secs", "peer", "allow-code"} {
			if _, ok := c.given["catalog-"+name]; ok {
				errs = append(errs, fmt.Errorf("--catalog-%s: works only with --catalog", name))
			}
		}
		return errors.Join(errs...)
	}
	if c.Catalog.Peer != "" && c.Catalog.TokenFile == "" {
		errs = append(errs, errors.New("--catalog-peer: other nodes show that they have the token, so "+
			"--catalog-token-file is needed"))
	}
	if c.Catalog.Interval < 100*time.Millisecond {
		errs = append(errs, errors.New("--catalog-interval-secs: it is at least 0.1"))
	}
	return errors.Join(errs...)
}
