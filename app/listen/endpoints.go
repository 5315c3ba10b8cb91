package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Endpoint is an address on which the server listens.
type Endpoint struct {
	Name    string // as in the names of its options: "http" of --http-port
	Option  string // that sets the port: "http-port"; with Whole the address too
	Title   string // in log lines and errors: "HTTP service"
	On      bool
	Address string // a name or an IP address, perhaps in brackets
	Port    int    // 0: any free port
	Shared  bool   // other servers of the same user may also listen on the port
	TLS     bool
	Whole   bool // Option is an address with a port
	// OrFree: if the port is in use or another endpoint has it, the endpoint takes a free one.
	OrFree bool
}

// Endpoints are all endpoints of a server. SageMaker and Vertex AI have the address of HTTP.
type Endpoints struct{ GRPC, HTTP, SageMaker, VertexAI, Metrics, UI, Kiosk Endpoint }

// All returns the endpoints, in the order in which Triton binds them. The GUI is last, because it can give way.
func (l *Endpoints) All() []*Endpoint {
	return []*Endpoint{&l.GRPC, &l.HTTP, &l.SageMaker, &l.VertexAI, &l.Metrics, &l.Kiosk, &l.UI}
}

// Complete fills in the names. SageMaker, Vertex AI and the metrics have the address of HTTP unless another one is set.
func (l *Endpoints) Complete() {
	l.GRPC.Name, l.GRPC.Title = "grpc", "GRPC service"
	l.HTTP.Name, l.HTTP.Title = "http", "HTTP service"
	l.SageMaker.Name, l.SageMaker.Title = "sagemaker", "SageMaker service"
	l.VertexAI.Name, l.VertexAI.Title = "vertex-ai", "Vertex AI service"
	l.Metrics.Name, l.Metrics.Title = "metrics", "Metrics service"
	l.UI.Name, l.UI.Title = "ui", "GUI"
	l.Kiosk.Name, l.Kiosk.Title, l.Kiosk.TLS = "kiosk", "public page", l.UI.TLS
	for _, e := range l.All() {
		e.Option = e.Name + "-port"
	}
	for _, e := range []*Endpoint{&l.SageMaker, &l.VertexAI, &l.Metrics} {
		if e.Address == "" {
			e.Address = l.HTTP.Address
		}
	}
}

// Reachable reports whether the endpoint is on and other machines can reach it.
func (e *Endpoint) Reachable() bool { return e.On && !IsLoopback(e.Address) }

// Reachable reports whether other machines can reach an endpoint. The public page does not count: it never needs a
// token.
func (l *Endpoints) Reachable() bool {
	for _, e := range l.All() {
		if e != &l.Kiosk && e.Reachable() {
			return true
		}
	}
	return false
}

// InferenceReachable reports whether other machines can reach an endpoint at which requests may name shared memory.
func (l *Endpoints) InferenceReachable() bool {
	return l.GRPC.Reachable() || l.HTTP.Reachable() || l.SageMaker.Reachable() || l.VertexAI.Reachable()
}

// IsLoopback reports whether only this machine can reach an address.
func IsLoopback(address string) bool {
	if address == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(address, "[]"))
	return ip != nil && ip.IsLoopback()
}

// CheckPorts refuses two services at one address. others are services that are not among the endpoints.
func (l *Endpoints) CheckPorts(others ...Endpoint) error {
	all := l.All()
	for i := range others {
		all = append(all, &others[i])
	}
	var errs []error
	for i, e := range all {
		for _, other := range all[:i] {
			if e.overlaps(other) && !e.OrFree && !other.OrFree {
				errs = append(errs, fmt.Errorf("--%s: %d is the port of the %s too; every service needs its own port",
					e.Option, e.Port, other.Title))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// overlaps reports whether two endpoints cannot be open together, because they have one port of one address.
func (e *Endpoint) overlaps(other *Endpoint) bool {
	if !e.On || !other.On || e.Port == 0 || e.Port != other.Port {
		return false
	}
	return e.Address == other.Address || e.covers(other) || other.covers(e)
}

// covers reports whether the address of e includes that of other. The unspecified address of IPv6 includes all, and
// that of IPv4 all but those of IPv6. The addresses of a name, such as localhost, are assumed to be of IPv4.
func (e *Endpoint) covers(other *Endpoint) bool {
	own, known := e.ip()
	if !known {
		return false
	}
	ip, known := other.ip()
	if own.IsUnspecified() {
		return own.Is6() || !known || ip.Is4()
	}
	return own == ip
}

// ip returns the address if it is no name. localhost is the loopback address of IPv4.
func (e *Endpoint) ip() (ip netip.Addr, known bool) {
	if e.Address == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	ip, err := netip.ParseAddr(strings.Trim(e.Address, "[]"))
	return ip.Unmap(), err == nil
}
