package cloud_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nereid/engine/repo/cloud"
)

// TestAzureIdentities opens a container with a token of the machine's identity. Stand-ins take the place of the service
// that gives tokens, in the form of App Service, and of the storage.
func TestAzureIdentities(t *testing.T) {
	for _, tt := range []struct{ name, kind, client string }{
		{"A018 default", "default", ""},
		{"A018 managed_identity", "managed_identity", ""},
		{"A018 managed_identity of a client", "managed_identity", "client-7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan string, 8)
			identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-IDENTITY-HEADER") != "secret" ||
					strings.TrimSuffix(r.URL.Query().Get("resource"), "/") != "https://storage.azure.com" {
					t.Errorf("a token was asked for by %s", r.URL)
					w.WriteHeader(http.StatusForbidden)
					return
				}
				asked <- r.URL.Query().Get("client_id")
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"access_token":"tok","token_type":"Bearer","resource":"x","expires_on":"%d"}`,
					time.Now().Add(time.Hour).Unix())
			}))
			defer identity.Close()
			t.Setenv("IDENTITY_ENDPOINT", identity.URL)
			t.Setenv("IDENTITY_HEADER", "secret")
			storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer tok" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				fmt.Fprint(w, `<?xml version="1.0"?><EnumerationResults><Blobs><Blob><Name>m/1/model.onnx</Name>`+
					`<Properties><Etag>"1"</Etag><Content-Length>3</Content-Length></Properties></Blob></Blobs>`+
					`</EnumerationResults>`)
			}))
			defer storage.Close()
			r, err := cloud.Open(t.Context(), "as://"+storage.URL+"/account/box", cloud.Options{
				Cache: t.TempDir(), Log: slog.New(slog.DiscardHandler), Transport: storage.Client().Transport,
				Lookup: lookup(map[string]string{"AZURE_STORAGE_AUTH_TYPE": tt.kind,
					"AZURE_STORAGE_CLIENT_ID": tt.client})})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			files, err := r.List("")
			if err != nil || len(files) != 1 || !strings.HasSuffix(files[0].Path, "model.onnx") {
				t.Fatalf("files %v, error %v", files, err)
			}
			select {
			case client := <-asked:
				if client != tt.client {
					t.Errorf("a token was asked for client %q, want %q", client, tt.client)
				}
			default: // Azure's library keeps tokens for the whole process
			}
		})
	}
}
