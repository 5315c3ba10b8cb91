package options

import (
	"testing"
	"time"

	"google.golang.org/grpc/keepalive"
)

// B075: Triton's options, by their names, with its defaults.
func TestKeepaliveOptions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		params keepalive.ServerParameters
		policy keepalive.EnforcementPolicy
	}{
		{name: "B075 defaults", params: keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second},
			policy: keepalive.EnforcementPolicy{MinTime: 5 * time.Minute}},
		{name: "B075 all of them", args: []string{"--grpc-keepalive-time=1000", "--grpc-keepalive-timeout=2000",
			"--grpc-keepalive-permit-without-calls=true",
			"--grpc-http2-max-pings-without-data=5", "--grpc-http2-min-recv-ping-interval-without-data=3000",
			"--grpc-http2-max-ping-strikes=2",
			"--grpc-max-connection-age=4000", "--grpc-max-connection-age-grace=5000"},
			params: keepalive.ServerParameters{Time: time.Second, Timeout: 2 * time.Second,
				MaxConnectionAge: 4 * time.Second, MaxConnectionAgeGrace: 5 * time.Second},
			policy: keepalive.EnforcementPolicy{MinTime: 3 * time.Second, PermitWithoutStream: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, tt.args...)
			if got := c.GRPC.Keepalive; got != tt.params {
				t.Errorf("parameters %+v, want %+v", got, tt.params)
			}
			if got := c.GRPC.Enforcement; got != tt.policy {
				t.Errorf("policy %+v, want %+v", got, tt.policy)
			}
		})
	}
}
