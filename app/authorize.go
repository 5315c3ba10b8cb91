package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/app/access"
	"nereid/app/console/rest"
	"nereid/engine/httpapi"
)

// httpNeeds are the scopes that groups of routes need. For other groups, which only read, any token is enough.
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

// refusalStatus is 403 for a token without the needed scope, otherwise 401.
func refusalStatus(err error) int {
	var r *access.Refusal
	if errors.As(err, &r) && r.Scope {
		return http.StatusForbidden
	}
	return http.StatusUnauthorized
}

const inferenceService = "/inference.GRPCInferenceService/"

// grpcNeeds returns the scope that a call needs, as httpNeeds does.
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

// authorizeGRPC guards every call with the metadata authorization.
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

// guardPlain guards a server other than the inference server, such as the metrics. It checks the token, and the Host
// header as the inference server does. Otherwise a web site whose name resolves to this machine could read the answers.
func guardPlain(tokens *access.Tokens, hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.HostAllowed(r.Host, hosts) {
			text := fmt.Sprintf("the Host header %q is not a name of this server; add it with --allowed-hosts", r.Host)
			rest.Write(w, http.StatusMisdirectedRequest, map[string]string{"error": text})
			return
		}
		remote, _ := net.ResolveTCPAddr("tcp", r.RemoteAddr) // nil if it is no address, which counts as another machine
		check := access.Request{Needs: access.Any, Authorization: r.Header.Get("Authorization")}
		if remote != nil {
			check.Remote = remote
		}
		if err := tokens.Check(check); err != nil {
			if refusalStatus(err) == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			}
			rest.Write(w, refusalStatus(err), map[string]string{"error": err.Error()})
			return
		}
		next.ServeHTTP(w, r)
	})
}
