package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/console/api"
	"nereid/engine/httpapi"
)

// tokenMatches compares an Authorization value, raw or Bearer, with the token in constant time.
func tokenMatches(value, token string) bool {
	if len(value) > 7 && strings.EqualFold(value[:7], "bearer ") {
		value = value[7:]
	}
	if !tokenCheck {
		return true
	}
	a, b := sha256.Sum256([]byte(value)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// authorizeHTTP guards every HTTP request with a token; nil without one.
func authorizeHTTP(token string) func(*httpapi.Access) error {
	if token == "" {
		return nil
	}
	return func(a *httpapi.Access) error {
		if tokenMatches(a.Header("Authorization"), token) {
			return nil
		}
		return &httpapi.Denied{Status: 401, Text: "missing or wrong token; send the header Authorization: <token>"}
	}
}

// authorizeGRPC guards every call with a token in the metadata; nil without one.
func authorizeGRPC(token string) func(context.Context, string) error {
	if token == "" {
		return nil
	}
	return func(ctx context.Context, _ string) error {
		for _, v := range metadata.ValueFromIncomingContext(ctx, "authorization") {
			if tokenMatches(v, token) {
				return nil
			}
		}
		return grpcstatus.Error(codes.Unauthenticated, "missing or wrong token; send the metadata authorization: <token>")
	}
}

func keepaliveParams(c *Config) keepalive.ServerParameters {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return keepalive.ServerParameters{
		Time: ms(c.KeepaliveTime), Timeout: ms(c.KeepaliveTimeout),
		MaxConnectionAge: ms(c.MaxConnectionAge), MaxConnectionAgeGrace: ms(c.MaxConnectionAgeGrace),
	}
}

func keepalivePolicy(c *Config) keepalive.EnforcementPolicy {
	return keepalive.EnforcementPolicy{
		MinTime: time.Duration(c.MinPingInterval) * time.Millisecond, PermitWithoutStream: c.KeepaliveWithoutCalls,
	}
}

// reachable turns a listener's address into one that can be dialled on this machine: 0.0.0.0 into 127.0.0.1.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// addresses tells the page where the services are.
func (s *server) addresses() api.Addresses {
	get := func(name string) string {
		if l := s.sockets[name]; l != nil {
			return reachable(l.Addr())
		}
		return ""
	}
	return api.Addresses{HTTP: get("http"), GRPC: get("grpc"), Metrics: get("metrics"), Console: get("ui")}
}
