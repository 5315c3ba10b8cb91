package kiosk

import (
	"net/http"
	"testing"
)

func TestOneAddressHasAtMostHalfOfAQuota(t *testing.T) {
	q := newQuota(8)
	for range 4 {
		if !q.take("a", 1) {
			t.Fatal("an address does not get half")
		}
	}
	if q.take("a", 1) {
		t.Error("an address gets more than half")
	}
	if !q.take("b", 4) || q.take("c", 1) {
		t.Error("two addresses do not share all of it")
	}
	q.give("a", 1)
	if !q.take("c", 1) {
		t.Error("what was given back is not there")
	}
	q.give("a", 3)
	q.give("b", 4)
	q.give("c", 1)
	if q.all != 0 || len(q.of) != 0 {
		t.Errorf("in the end %d are left, of %v", q.all, q.of)
	}
}

func TestClientIsAnAddressOrANetworkOfIPv6(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.7:4711":                "10.0.0.7",
		"[::ffff:10.0.0.7]:4711":       "10.0.0.7",
		"[2001:db8:1:2:3:4:5:6]:80":    "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":            "fe80::/64",
		"a socket without such a name": "a socket without such a name",
	} {
		if got := client(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
