package httpapi

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"nereid/engine/tensor"
)

// exchangeHeaders sends a request and returns the status and the headers of the reply.
func exchangeHeaders(t *testing.T, s *testServer, req string) (int, http.Header) {
	t.Helper()
	conn := dial(t, s.addr)
	io.WriteString(conn, req)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}

func TestCORS_B042(t *testing.T) {
	const page, preflight = "Origin: https://app.example", "Access-Control-Request-Method: POST"
	s := serve(t, func(o *Options) {
		o.AllowedOrigins = []string{"https://app.example", "http://localhost:3000"}
		o.AllowedHosts = []string{}
		o.Authorize = func(a *Access) error {
			if a.Authorization == "secret" {
				return nil
			}
			return &Denied{Status: 401, Text: "no token"}
		}
	})
	for _, tt := range []struct {
		name, req    string
		status       int
		origin       string // Access-Control-Allow-Origin
		allowHeaders string
	}{
		{"preflight without a token", request("OPTIONS", addSubPath, "", page, preflight,
			"Access-Control-Request-Headers: authorization, inference-header-content-length"),
			204, "https://app.example", "authorization, inference-header-content-length"},
		{"preflight of another site", request("OPTIONS", addSubPath, "", "Origin: https://evil.example", preflight),
			401, "", ""},
		{"preflight of a longer name", request("OPTIONS", addSubPath, "", "Origin: https://app.example.evil",
			preflight), 401, "", ""},
		{"preflight of null", request("OPTIONS", addSubPath, "", "Origin: null", preflight), 401, "", ""},
		{"preflight to a foreign host", strings.Replace(request("OPTIONS", addSubPath, "", page, preflight),
			"Host: 127.0.0.1", "Host: evil.example", 1), 421, "https://app.example", ""},
		{"OPTIONS that is no preflight", request("OPTIONS", addSubPath, "", page, "Authorization: secret"), 405,
			"https://app.example", ""},
		{"answer", request("POST", addSubPath, addSubJSON, page, "Authorization: secret"), 200, "https://app.example",
			""},
		{"second site", request("GET", "/v2", "", "Origin: http://localhost:3000", "Authorization: secret"), 200,
			"http://localhost:3000", ""},
		{"refusal can be read", request("POST", addSubPath, addSubJSON, page), 401, "https://app.example", ""},
		{"stream", request("POST", "/v2/models/id_bytes/generate_stream", `{"INPUT0":"a"}`, page,
			"Authorization: secret"), 200, "https://app.example", ""},
		{"another site cannot read", request("GET", "/v2", "", "Origin: https://evil.example",
			"Authorization: secret"), 200, "", ""},
		{"another site cannot change", request("POST", addSubPath, addSubJSON, "Origin: https://evil.example",
			"Authorization: secret"), 403, "", ""},
		{"no origin", request("GET", "/v2", "", "Authorization: secret"), 200, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, h := exchangeHeaders(t, s, tt.req)
			if code != tt.status || h.Get("Access-Control-Allow-Origin") != tt.origin ||
				h.Get("Access-Control-Allow-Headers") != tt.allowHeaders {
				t.Errorf("answer %d with %v", code, h)
			}
			if tt.origin == "" {
				for name := range h {
					if strings.HasPrefix(name, "Access-Control") {
						t.Errorf("an unknown origin gets %s: %v", name, h[name])
					}
				}
			} else if h.Get("Vary") != "Origin" {
				t.Errorf("headers %v lack Vary: Origin", h)
			}
		})
	}
	_, h := exchangeHeaders(t, s, request("POST", addSubPath, addSubJSON, page, "Authorization: secret"))
	if !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Inference-Header-Content-Length") {
		t.Errorf("a page cannot read where the binary part begins: %v", h)
	}
	_, h = exchangeHeaders(t, s, request("OPTIONS", addSubPath, "", page, preflight,
		"Access-Control-Request-Private-Network: true"))
	if h.Get("Access-Control-Allow-Private-Network") != "true" ||
		h.Get("Access-Control-Allow-Methods") != "GET, POST, OPTIONS" || h.Get("Access-Control-Max-Age") != "600" {
		t.Errorf("preflight: %v", h)
	}
}

func TestNoCORSUnlessAsked_B042(t *testing.T) {
	code, h := exchangeHeaders(t, serve(t), request("OPTIONS", addSubPath, "", "Origin: https://app.example",
		"Access-Control-Request-Method: POST"))
	if code != 405 || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without the option a preflight gets %d %v", code, h)
	}
}

func TestLoadReport_B044(t *testing.T) {
	const metrics = `# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="m",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="m",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="m",version="1"} 1e2
nv_trt_llm_kv_cache_block_metrics{model="m",kv_cache_block_type="max",version="1"} 400
`
	for _, tt := range []struct{ name, metrics, format, want string }{
		{"text", metrics, "text", "TEXT named_metrics.kv_cache_utilization=0.250000, " +
			"named_metrics.max_token_capacity=25600"},
		{"json", metrics, "json", `JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":25600}}`},
		{"another format", metrics, "xml", ""},
		{"not asked for", metrics, "", ""},
		{"no such metrics", "nv_cpu_utilization 0.5\n", "json", ""},
		{"one of them", "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"} 3\n", "json", ""},
		{"empty cache", strings.ReplaceAll(strings.ReplaceAll(metrics, "1e2", "0"), "400", "0"), "json",
			`JSON {"named_metrics":{"kv_cache_utilization":0.0,"max_token_capacity":0}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(o *Options) { o.Metrics = func(b []byte) []byte { return append(b, tt.metrics...) } })
			var headers []string
			if tt.format != "" {
				headers = append(headers, "endpoint-load-metrics-format: "+tt.format)
			}
			for _, path := range []string{"generate", "generate_stream"} {
				code, h := exchangeHeaders(t, s, request("POST", "/v2/models/id_bytes/"+path, `{"INPUT0":"a"}`,
					headers...))
				if got := h.Get("endpoint-load-metrics"); code != 200 || got != tt.want {
					t.Errorf("%s answers %d with the report %q, want %q", path, code, got, tt.want)
				}
			}
		})
	}
}

func TestModelList_B004_DV30(t *testing.T) {
	s := serve(t)
	index := send(t, dial(t, s.addr), request("POST", "/v2/repository/index", ""))
	got := send(t, dial(t, s.addr), request("GET", "/v2/models", ""))
	checkAnswer(t, got, okJSON(index.body))
	checkAnswer(t, send(t, dial(t, s.addr), request("POST", "/v2/models", "")),
		answer{status: "405 Not Allowed", kind: typeJSON, body: `{"error":"Method Not Allowed"}`})
	checkAnswer(t, send(t, dial(t, s.addr), request("GET", "/v2/models/", "")),
		answer{status: "404 Not Found", kind: typeText, body: `{"error":"Not Found"}`})
}

// Bodies of generate may be compressed like those of infer.
func TestGenerateCompressedBody_B037_DV33(t *testing.T) {
	s := serve(t)
	s.engine.models["big"] = model("big", tensor.Bytes, 1, 0, []int64{-1}, identity)
	text := strings.Repeat("compress me ", 1000)
	resp, body := post(t, s, "/v2/models/big/generate", compressed(t, "gzip", `{"INPUT0":"`+text+`"}`),
		"Content-Encoding: gzip")
	if resp.StatusCode != 200 || body != `{"OUTPUT0":"`+text+`","model_name":"big","model_version":"1"}` {
		t.Errorf("generate answers %d %.100s", resp.StatusCode, body)
	}
}
