package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/store"
)

// networkSetting is the key of what the page chose, and networkChoice its value.
const networkSetting = "access.network"

type networkChoice struct {
	Open    bool   `json:"open"`
	Address string `json:"address"` // "" stands for every address of this machine
	Local   bool   `json:"local"`   // programs on this machine need no token
}

// network opens HTTP, gRPC and metrics to other machines while the server runs. The listeners on loopback stay as they
// are, and each address gets listeners of its own beside them, so that opening drops nobody; closing ends the connections
// that came through them.
type network struct {
	s          *server
	candidates func() []netip.Addr // this machine's addresses that others can reach

	mu       sync.Mutex // guards the rest
	choice   networkChoice
	open     map[string]*openListener // by service and address
	problems []string
}

// openListener is a listener that others can reach. Its Close ends its connections too.
type openListener struct {
	*net.TCPListener
	mu     sync.Mutex
	conns  map[*openConn]struct{} // guarded by mu; nil once closed
	closed bool
}

type openConn struct {
	*net.TCPConn
	of *openListener
}

// Accept waits for a connection.
func (l *openListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	k := &openConn{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close() // it was never served
		return nil, net.ErrClosed
	}
	l.conns[k] = struct{}{}
	return k, nil
}

// Close closes the connection.
func (c *openConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}

// end closes the listener and its connections.
func (l *openListener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.TCPListener.Close()
	for c := range l.conns {
		_ = c.TCPConn.Close() // whoever serves it finds out
	}
	l.conns = nil
}

// newNetwork reads the choice of the last run. open serves by it.
func newNetwork(ctx context.Context, s *server) *network {
	n := &network{s: s, candidates: reachableAddresses, open: map[string]*openListener{}}
	raw, err := s.store.Setting(ctx, networkSetting)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err == nil:
		err = json.Unmarshal(raw, &n.choice)
		fallthrough
	default:
		if err != nil {
			n.choice = networkChoice{}
			s.warn(fmt.Sprintf("whether other machines may reach this server cannot be read, so that they may not: %v", err))
		}
	}
	if n.choice.Open && !s.tokens.Exist() {
		n.choice.Open = false
		s.warn("other machines may not reach this server: there is no token; make one in the settings and open it again")
	}
	s.tokens.AllowLocal(n.choice.Local)
	return n
}

// fixed reports whether the options decide instead.
func (n *network) fixed() bool { return n.s.wide() }

// run opens what was chosen and follows the machine's addresses until ctx ends.
func (n *network) run(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		n.mu.Lock()
		n.apply()
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			n.choice.Open = false
			n.apply()
			return nil
		case <-tick.C:
		}
	}
}

// apply opens and closes listeners by the choice. mu is held.
func (n *network) apply() {
	wanted := map[string]bool{}
	n.problems = nil
	if n.choice.Open && !n.fixed() {
		for _, a := range n.candidates() {
			if n.choice.Address != "" && n.choice.Address != a.String() {
				continue
			}
			for _, service := range []string{"http", "grpc", "metrics"} {
				if base := n.s.sockets[service]; base != nil {
					key := service + " " + a.String()
					wanted[key] = true
					if n.open[key] == nil {
						n.listen(key, service, netip.AddrPortFrom(a, base.Addr().(*net.TCPAddr).AddrPort().Port()))
					}
				}
			}
		}
		if len(wanted) == 0 {
			n.problems = append(n.problems, "this machine has no such address now; it is tried again every 10 seconds")
		}
	}
	for key, l := range n.open {
		if !wanted[key] {
			l.end()
			delete(n.open, key)
		}
	}
}

// listen serves one service on one address. mu is held.
func (n *network) listen(key, service string, at netip.AddrPort) {
	base, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		n.problems = append(n.problems, fmt.Sprintf("%s cannot be opened: %v", service, err))
		return
	}
	l := &openListener{TCPListener: base, conns: map[*openConn]struct{}{}}
	n.open[key] = l
	n.s.log.Warn("other machines can reach this server with a token", "service", service, "address", at.String())
	secure := n.s.wrapTLS(service, l)
	serve := map[string]func() error{
		"http":    func() error { return n.s.http.Serve(secure) },
		"grpc":    func() error { return n.s.grpc.Serve(l) },
		"metrics": func() error { return n.s.metricsHTTP.Serve(secure) },
	}[service]
	n.s.spawn(func() error {
		err := serve()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed || errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
}

// Set takes the page's choice, keeps it for the next start and opens or closes at once.
func (n *network) Set(ctx context.Context, want api.SetNetwork) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.fixed() && want.Open:
		return errors.New("the options of the command line decide which addresses are open; start without them to decide here")
	case want.Open && !n.s.tokens.Exist():
		return errors.New("make a token first: without one, everybody in the network could use the models")
	case want.Open && want.Address != "" && !slices.ContainsFunc(n.candidates(), func(a netip.Addr) bool { return a.String() == want.Address }):
		return fmt.Errorf("%q is no address of this machine that others can reach", want.Address)
	}
	choice := networkChoice{Open: want.Open, Address: want.Address, Local: want.LocalFree}
	raw, err := json.Marshal(choice)
	if err != nil {
		return err
	}
	if err := n.s.store.SetSetting(ctx, networkSetting, raw); err != nil {
		return err
	}
	n.choice = choice
	n.s.tokens.RequireAlways(n.choice.Open || n.s.wide() && !n.s.c.AllowAnonymous) // before a listener opens
	n.s.tokens.AllowLocal(choice.Local)
	n.apply()
	return nil
}

// State is what the page shows.
func (n *network) State() api.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := api.Network{Open: n.choice.Open && !n.fixed(), Address: n.choice.Address, LocalFree: n.choice.Local, Fixed: n.fixed(), Problems: n.problems}
	for _, a := range n.candidates() {
		out.Choices = append(out.Choices, a.String())
		for _, service := range []string{"http", "grpc", "metrics"} {
			if l := n.open[service+" "+a.String()]; l != nil {
				out.Reached = append(out.Reached, api.Reached{Service: service, URL: n.s.url(service, l.Addr().String())})
			}
		}
	}
	if out.Fixed {
		for _, e := range n.s.c.endpoints() {
			if l := n.s.sockets[e.option]; e.on && l != nil && !loopback(e.address) {
				out.Reached = append(out.Reached, api.Reached{Service: e.option, URL: n.s.url(e.option, l.Addr().String())})
			}
		}
	}
	return out
}

// url is how clients write an address of a service.
func (s *server) url(service, address string) string {
	scheme := map[string]string{"grpc": "grpc"}[service]
	if scheme == "" {
		scheme = "http"
	}
	if s.secure[service] != nil {
		scheme += "s"
	}
	if service == "metrics" {
		address += "/metrics"
	}
	return scheme + "://" + address
}

// reachableAddresses are the addresses of this machine that others may reach: of interfaces that are up, not loopback and
// not of one link only, in order.
func reachableAddresses() []netip.Addr {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addresses {
			prefix, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			if ip, ok := netip.AddrFromSlice(prefix.IP); ok {
				if ip = ip.Unmap(); ip.IsGlobalUnicast() && !slices.Contains(out, ip) {
					out = append(out, ip)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b netip.Addr) int { return a.Compare(b) }) // IPv4 first
	return out
}

// ownNames are the machine's names in its network; a site cannot take them for itself.
func ownNames() []string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return []string{}
	}
	return []string{name, name + ".local"}
}
