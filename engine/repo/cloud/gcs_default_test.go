package cloud_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/repo/cloud"
)

// TestDefaultCredentialsOfGoogle_A017 reads a bucket with what "gcloud auth application-default login" leaves. The
// token is fetched after the search for credentials.
func TestDefaultCredentialsOfGoogle_A017(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "") // the library reads it too
	file := filepath.Join(home, ".config", "gcloud", "application_default_credentials.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const user = `{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}`
	if err := os.WriteFile(file, []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := cloud.Open(t.Context(), "gs://bucket/repo", cloud.Options{
		Lookup: lookup(nil), Cache: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if err := r.Context().Err(); err != nil {
				return nil, err // as the usual one does
			}
			answer, body := http.StatusOK, `{"items": []}`
			switch {
			case r.URL.Host == "oauth2.googleapis.com":
				body = `{"access_token": "secret", "token_type": "Bearer", "expires_in": 3600}`
			case r.Header.Get("Authorization") != "Bearer secret":
				answer = http.StatusUnauthorized
			}
			return &http.Response{StatusCode: answer, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.List(""); err != nil {
		t.Errorf("List with the default credentials = %v", err)
	}
}
