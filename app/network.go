package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"nereid/app/console/api"
	"nereid/app/listen"
	"nereid/store"
)

// networkSetting is the key under which the store holds the networkChoice of the page.
const networkSetting = "access.network"

type networkChoice struct {
	Open    bool   `json:"open"`
	Address string `json:"address"` // "": all addresses of this machine
	Local   bool   `json:"local"`   // programs on this machine need no token
}

// network opens HTTP, gRPC and metrics to other machines while the server runs. The listeners on loopback addresses
// stay. Each other address gets additional listeners, so opening interrupts nobody. Closing them ends their
// connections.
type network struct {
	f          *fronts
	store      *store.Store
	candidates func() []netip.Addr // this machine's addresses that others can reach

	changed  chan struct{} // sends when the choice has changed
	mu       sync.Mutex    // guards the rest
	choice   networkChoice
	open     map[string]*listen.Tracking // by service and address
	problems []string
}

// networkServices are the services that other machines can reach.
var networkServices = []string{"http", "grpc", "metrics"}

// newNetwork reads the stored choice. run applies it.
func newNetwork(ctx context.Context, s *server) *network {
	n := &network{f: s.fronts, store: s.store, candidates: reachableAddresses, changed: make(chan struct{}, 1),
		open: map[string]*listen.Tracking{}}
	raw, err := s.store.Setting(ctx, networkSetting)
	if err == nil {
		err = json.Unmarshal(raw, &n.choice)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		n.choice = networkChoice{}
		s.warn(fmt.Sprintf("cannot read whether other machines may reach this server, so they may not: %v", err))
	}
	if n.choice.Open && !s.tokens.Exist() {
		n.choice.Open = false
		s.warn("other machines may not reach this server: there is no token; make one in the settings and open it " +
			"again")
	}
	n.setTokens()
	return n
}

// setTokens sets who needs a token.
func (n *network) setTokens() {
	n.f.tokens.RequireAlways(n.choice.Open || n.fixed() && !n.f.c.Access.AllowAnonymous)
	n.f.tokens.AllowLocal(n.choice.Local)
}

// fixed reports whether the options open addresses, so that the page cannot.
func (n *network) fixed() bool { return n.f.c.Listen.Reachable() }

// run opens what was chosen and follows changes of the machine's addresses until ctx ends.
func (n *network) run(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		n.mu.Lock()
		n.apply()
		again := tick.C
		if !n.choice.Open || n.fixed() {
			again = nil // an idle server does not wake up for this
		}
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			n.choice.Open = false
			n.apply()
			return nil
		case <-again:
		case <-n.changed:
		}
	}
}

// apply opens and closes listeners as chosen. mu is held.
func (n *network) apply() {
	if n.choice.Open { // before a client of the network can connect
		n.shareMemory(false)
	}
	wanted := map[string]bool{}
	n.problems = nil
	if n.choice.Open && !n.fixed() {
		for _, a := range n.candidates() {
			if n.choice.Address == "" || n.choice.Address == a.String() {
				n.openAddress(a, wanted)
			}
		}
		if len(wanted) == 0 {
			n.problems = append(n.problems, "this machine has no such address now; it is tried again every 10 seconds")
		}
	}
	for key, l := range n.open {
		if !wanted[key] {
			l.CloseAll()
			delete(n.open, key)
		}
	}
	if !n.choice.Open { // after the last one is disconnected
		n.shareMemory(true)
	}
}

// shareMemory lets clients share memory with the server, or no longer, unless options decide that. mu is held.
func (n *network) shareMemory(on bool) {
	if !n.f.c.LocalClientShm || n.fixed() {
		return
	}
	if err := n.f.engine.SharedMemory().Disable(!on); err != nil {
		n.f.log.Warn("shared memory of clients", "err", err)
	}
}

// openAddress opens the services on one address and adds their keys to wanted. mu is held.
func (n *network) openAddress(a netip.Addr, wanted map[string]bool) {
	for _, service := range networkServices {
		base := n.f.listeners[service]
		if base == nil {
			continue
		}
		key := service + " " + a.String()
		wanted[key] = true
		if n.open[key] == nil {
			n.listen(key, service, netip.AddrPortFrom(a, base.Addr().(*net.TCPAddr).AddrPort().Port()))
		}
	}
}

// listen serves one service on one address. mu is held.
func (n *network) listen(key, service string, at netip.AddrPort) {
	l, err := listen.NewTracking(at)
	if err != nil {
		n.problems = append(n.problems, fmt.Sprintf("%s cannot be opened: %v", service, err))
		return
	}
	n.open[key] = l
	n.f.log.Warn("other machines can reach this server with a token", "service", service, "address", at.String())
	serve := n.f.server(service, l)
	n.f.tasks.spawn(func() error {
		err := serve()
		if l.Closed() || errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
}

// Set stores the choice of the page and opens or closes listeners.
func (n *network) Set(ctx context.Context, want api.SetNetwork) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	isWanted := func(a netip.Addr) bool { return a.String() == want.Address }
	switch {
	case n.fixed() && want.Open:
		return errors.New("the options of the command line decide which addresses are open; start without them to " +
			"decide here")
	case want.Open && !n.f.tokens.Exist():
		return errors.New("make a token first: without one, everybody in the network could use the models")
	case want.Open && want.Address != "" && !slices.ContainsFunc(n.candidates(), isWanted):
		return fmt.Errorf("%q is no address of this machine that others can reach", want.Address)
	}
	choice := networkChoice{Open: want.Open, Address: want.Address, Local: want.LocalFree}
	raw, err := json.Marshal(choice)
	if err != nil {
		return err
	}
	if err := n.store.SetSetting(ctx, networkSetting, raw); err != nil {
		return err
	}
	n.choice = choice
	n.setTokens() // before a listener opens
	n.apply()
	select {
	case n.changed <- struct{}{}:
	default:
	}
	return nil
}

// State is what the page shows.
func (n *network) State() api.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := api.Network{
		Open: n.choice.Open && !n.fixed(), Address: n.choice.Address, LocalFree: n.choice.Local,
		Fixed: n.fixed(), Problems: n.problems,
	}
	reached := func(service string, l net.Listener) {
		out.Reached = append(out.Reached, api.Reached{Service: service, URL: n.f.url(service, l.Addr().String())})
	}
	for _, a := range n.candidates() {
		out.Choices = append(out.Choices, a.String())
		for _, service := range networkServices {
			if l := n.open[service+" "+a.String()]; l != nil {
				reached(service, l)
			}
		}
	}
	for _, e := range n.f.c.Listen.All() {
		if l := n.f.listeners[e.Name]; e.Reachable() && l != nil {
			reached(e.Name, l)
		}
	}
	return out
}

// reachableAddresses are the addresses of this machine that others may reach: those of interfaces that are up, without
// loopback and link-local ones, in order.
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
			if ip, ok := netip.AddrFromSlice(prefix.IP); ok && ip.Unmap().IsGlobalUnicast() {
				out = append(out, ip.Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare) // IPv4 first
	return slices.Compact(out)
}
