package httpapi

import (
	"errors"
	"testing"

	"nereid/engine/restrict"
)

// A group is closed on every path that leads to it, also below the base path, for every method.
func TestRestrictedAPI_B079(t *testing.T) {
	rules := &restrict.Rules{}
	for _, o := range []string{"model-repository,inference:Admin-Key=secret", "health:other=1"} {
		if err := rules.Add(o, ""); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, func(o *Options) { o.Restricted, o.BasePath = rules, "/base" })
	conn := dial(t, s.addr)
	refused := func(header string) answer {
		return answer{status: "403 Forbidden", kind: typeText,
			body: `{"error":"This API is restricted, expecting header '` + header + `'"}`}
	}
	for _, tt := range []struct {
		name, method, path, header string
		want                       answer
	}{
		{"no header", "POST", "/v2/repository/index", "", refused("Admin-Key")},
		{"wrong value", "POST", "/v2/repository/index", "Admin-Key: Secret", refused("Admin-Key")},
		{"right value", "POST", "/v2/repository/index", "admin-key: secret", okJSON("[]")},
		{"the base path", "POST", "/base/v2/repository/models/x/load", "", refused("Admin-Key")},
		{"the wrong method", "GET", "/v2/repository/index", "", refused("Admin-Key")},
		{"inference", "POST", addSubPath, "", refused("Admin-Key")},
		{"generate", "POST", "/v2/models/id_bytes/generate", "", refused("Admin-Key")},
		{"stream", "POST", "/v2/models/id_bytes/versions/1/generate_stream", "", refused("Admin-Key")},
		{"another group's header", "GET", "/v2/health/live", "Admin-Key: secret", refused("other")},
		{"a model's readiness is health", "GET", "/v2/models/add_sub/ready", "", refused("other")},
		{"an open group", "GET", "/v2", "", okJSON(`{"name":"triton","version":"2.51.0",` +
			`"extensions":["classification","sequence"]}`)},
		{"no route", "GET", "/v2//repository/index", "", answer{status: "404 Not Found", kind: typeText,
			body: `{"error":"Not Found"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkAnswer(t, send(t, conn, request(tt.method, tt.path, "", optional(tt.header)...)), tt.want)
		})
	}
}

func optional(header string) []string {
	if header == "" {
		return nil
	}
	return []string{header}
}

// A request without a token does not learn the name of a restriction's header.
func TestRestrictedAfterAuthorize(t *testing.T) {
	rules := &restrict.Rules{}
	if err := rules.Add("health:k=v", ""); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *Options) {
		o.Restricted = rules
		o.Authorize = func(*Access) error { return errors.New("no") }
	})
	checkAnswer(t, send(t, dial(t, s.addr), request("GET", "/v2/health/live", "")),
		answer{status: "403 Forbidden", kind: typeText, body: `{"error":"no"}`})
}
