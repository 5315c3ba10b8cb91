package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/engine/httpapi"
)

// httpNeeds says which scopes open a group of routes. Those that are not here only read, or are no route: any token does.
var httpNeeds = [...]access.Scope{
	httpapi.Inference: access.Infer, httpapi.SharedMemory: access.Infer,
	httpapi.ModelRepository: access.Control, httpapi.Trace: access.Control, httpapi.Logging: access.Control,
}

// authorizeHTTP guards every HTTP request. It does not allocate.
func authorizeHTTP(tokens *access.Tokens) func(*httpapi.Access) error {
	return func(a *httpapi.Access) error {
		needs := access.Any
		if int(a.Group) < len(httpNeeds) && httpNeeds[a.Group] != 0 {
			needs = httpNeeds[a.Group]
		}
		err := tokens.Check(access.Request{Authorization: a.Authorization, Remote: a.Remote, Needs: needs})
		if err == nil {
			return nil
		}
		return &httpapi.Denied{Status: refusalStatus(err), Text: err.Error()}
	}
}

// refusalStatus is 403 for a token that opens other things, else 401.
func refusalStatus(err error) int {
	var r *access.Refusal
	if errors.As(err, &r) && r.Scope {
		return http.StatusForbidden
	}
	return http.StatusUnauthorized
}

const inferenceService = "/inference.GRPCInferenceService/"

// grpcNeeds says which scopes open a call, as httpNeeds does.
func grpcNeeds(method string) access.Scope {
	call, ours := strings.CutPrefix(method, inferenceService)
	switch {
	case !ours:
	case call == "ModelInfer", call == "ModelStreamInfer", strings.Contains(call, "SharedMemory"):
		return access.Infer
	case strings.HasPrefix(call, "Repository"), call == "TraceSetting", call == "LogSettings":
		return access.Control
	}
	return access.Any
}

// authorizeGRPC guards every call by the metadata authorization.
func authorizeGRPC(tokens *access.Tokens) func(context.Context, string) error {
	return func(ctx context.Context, method string) error {
		r := access.Request{Needs: grpcNeeds(method)}
		if p, ok := peer.FromContext(ctx); ok {
			r.Remote = p.Addr
		}
		if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) == 1 {
			r.Authorization = v[0]
		}
		err := tokens.Check(r)
		if err == nil {
			return nil
		}
		if refusalStatus(err) == http.StatusForbidden {
			return grpcstatus.Error(codes.PermissionDenied, err.Error())
		}
		return grpcstatus.Error(codes.Unauthenticated, err.Error())
	}
}

// guardPlain guards a server that is not the inference server's, such as metrics: by token, and by the Host header as
// that one does, because a web site that calls itself an address of this machine could otherwise read what it serves.
func guardPlain(tokens *access.Tokens, hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.HostAllowed(r.Host, hosts) {
			http.Error(w, "this server is not called so; name it in --allowed-hosts if it should be", http.StatusMisdirectedRequest)
			return
		}
		remote, _ := net.ResolveTCPAddr("tcp", r.RemoteAddr) // nil for one that is no address: not from here
		check := access.Request{Needs: access.Any, Authorization: r.Header.Get("Authorization")}
		if remote != nil {
			check.Remote = remote
		}
		if err := tokens.Check(check); err != nil {
			if refusalStatus(err) == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			}
			http.Error(w, err.Error(), refusalStatus(err))
			return
		}
		next.ServeHTTP(w, r)
	})
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
	out := api.Addresses{HTTP: get("http"), GRPC: get("grpc"), Metrics: get("metrics"), Console: get("ui")}
	for _, e := range []struct{ option, member string }{{"http", "http"}, {"grpc", "grpc"}, {"metrics", "metrics"}, {"ui", "console"}} {
		if s.secure[e.option] != nil {
			out.TLS = append(out.TLS, e.member)
		}
	}
	return out
}
