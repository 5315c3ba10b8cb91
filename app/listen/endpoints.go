package listen

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Endpoint is an address on which the server listens.
type Endpoint struct {
	Name    string // as in the names of its options: "http" of --http-port
	Title   string // in log lines and errors: "HTTP service"
	On      bool
	Address string // a name or an IP address, perhaps in brackets
	Port    int    // 0: any free port
	Shared  bool   // other servers of the same user may also listen on the port
	TLS     bool
	// OrFree: if the port is in use, the endpoint takes a free one.
	OrFree bool
}

// Endpoints are all endpoints of a server. SageMaker and Vertex AI have the address of HTTP.
type Endpoints struct{ GRPC, HTTP, SageMaker, VertexAI, Metrics, UI, Kiosk Endpoint }

// All returns the endpoints, in the order in which Triton binds them; the GUI and the public page are last.
func (l *Endpoints) All() []*Endpoint {
	return []*Endpoint{&l.GRPC, &l.HTTP, &l.SageMaker, &l.VertexAI, &l.Metrics, &l.UI, &l.Kiosk}
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

// IsLoopback reports whether only this machine can reach an address.
func IsLoopback(address string) bool {
	if address == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(address, "[]"))
	return ip != nil && ip.IsLoopback()
}

// CheckPorts refuses two endpoints on one port.
func (l *Endpoints) CheckPorts() error {
	var errs []error
	used := map[int]string{}
	for _, e := range l.All() {
		if !e.On || e.Port == 0 {
			continue
		}
		if other := used[e.Port]; other != "" && !e.OrFree {
			errs = append(errs, fmt.Errorf("--%s-port: %d is the port of the %s too; every service needs its own port",
				e.Name, e.Port, other))
		}
		used[e.Port] = e.Title
	}
	return errors.Join(errs...)
}
