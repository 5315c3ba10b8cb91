package app

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

func TestTokenIsChecked(t *testing.T) {
	for value, want := range map[string]bool{
		"secret": true, "Bearer secret": true, "bearer secret": true,
		"": false, "Bearer": false, "Bearer ": false, "secre": false, "secrets": false, "SECRET": false, "Basic secret": false,
	} {
		if got := tokenMatches(value, "secret"); got != want {
			t.Errorf("tokenMatches(%q) = %v, want %v", value, got, want)
		}
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", value))
		err := authorizeGRPC("secret")(ctx, "/x")
		if (err == nil) != want || err != nil && grpcstatus.Code(err) != codes.Unauthenticated {
			t.Errorf("gRPC with %q = %v, want pass %v", value, err, want)
		}
	}
	if authorizeHTTP("") != nil || authorizeGRPC("") != nil {
		t.Error("a server without a token asks for one")
	}
}
