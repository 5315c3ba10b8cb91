package listen

import (
	"strings"
	"testing"
)

func TestAllAddressesOfIPv4_H028(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0": "0.0.0.0:", "127.0.0.1": "127.0.0.1:"} {
		endpoints := Endpoints{HTTP: Endpoint{Name: "http", On: true, Address: address}}
		all, err := endpoints.Open()
		if err != nil {
			t.Fatal(err)
		}
		if got := all["http"].Addr().String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s listens on %s", address, got)
		}
		all.Close()
	}
}
