package kiosk

import (
	"net/http"
	"net/netip"
	"sync"
)

// quota bounds what visitors have at one time. One address has at most half of it.
type quota struct {
	most int64
	mu   sync.Mutex
	all  int64
	of   map[string]int64 // by address, if not 0
}

func newQuota(most int64) quota { return quota{most: most, of: map[string]int64{}} }

// take reports whether an address may have n more.
func (q *quota) take(address string, n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all+n > q.most || q.of[address]+n > q.most/2 {
		return false
	}
	q.all, q.of[address] = q.all+n, q.of[address]+n
	return true
}

// give returns what was taken.
func (q *quota) give(address string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all, q.of[address] = q.all-n, q.of[address]-n
	if q.of[address] == 0 {
		delete(q.of, address)
	}
}

// client names who sends a request: the address, or the first 64 bits of one of IPv6, because a network has all the
// others.
func client(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a := at.Addr().Unmap()
	if a.Is6() {
		prefix, _ := a.WithZone("").Prefix(64) // has 128 bits
		return prefix.String()
	}
	return a.String()
}
