package app

import (
	"net/http"
	"testing"
)

func TestSageMakerService_B083_G015(t *testing.T) {
	r := runServer(t, "secret", "--allow-sagemaker=true", "--sagemaker-port=0")
	base := "http://" + r.fronts.listeners["sagemaker"].Addr().String()
	for _, tt := range []struct {
		path, token string
		want        int
	}{{"/ping", "", 401}, {"/ping", "secret", 200}, {"/models", "secret", 200}, {"/v2", "secret", 400}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.token != "" {
			req.Header.Set("Authorization", tt.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s with token %q answers %d, want %d", tt.path, tt.token, resp.StatusCode, tt.want)
		}
	}
}
