package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// The bodies of administration requests are read like encoding/json reads them, or refused.
func FuzzControlBodies(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"ready":true}`, `{"ready":1}`, "\xef\xbb\xbf{\"ready\":false}",
		`{"parameters":{"config":"{\"a\":1}","file:1/m.onnx":"AAEC"}}`,
		`{"parameters":{"file:x":"A","version":"3"}}`, `{"parameters":{"unload_dependents":true}}`,
		`{"parameters":{"version":3,"version":4}}`,
		`{"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":"1","trace_count":null}`, `{"trace_level":[]}`,
		`{"trace_mode":"triton","log_frequency":"0"}`,
		`{"log_info":false,"log_verbose_level":2,"log_format":"ISO8601"}`, `{"log_file":"/etc/passwd"}`,
		`{"log_verbose_level":-1}`, `{"a":"\ud83d\ude00\n"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		plain := bytes.TrimPrefix(doc, []byte("\xef\xbb\xbf"))
		var values map[string]any
		known := json.Unmarshal(plain, &values) == nil
		if ready, err := parseIndex(doc); err == nil && known && len(plain) > 0 {
			if want, ok := values["ready"].(bool); ok != (values["ready"] != nil) || ready != want {
				t.Errorf("parseIndex(%q) = %v", doc, ready)
			}
		}
		inner, _ := values["parameters"].(map[string]any)
		if p, err := parseLoad(doc); err == nil && known && !bytes.Contains(doc, []byte{'\\'}) && oneEach(doc) {
			files := filesOf(t, inner)
			config, _ := inner["config"].(string)
			if !maps.EqualFunc(p.Files, files, bytes.Equal) || strings.ToValidUTF8(p.ConfigJSON,
				"") != strings.ReplaceAll(config, "\ufffd", "") && !strings.Contains(p.ConfigJSON, "\ufffd") {
				t.Errorf("parseLoad(%q) = %+v, want files %q and config %q", doc, p, files, config)
			}
		}
		if dependents, version, err := parseUnload(doc); err == nil && (version < 0 || dependents && version > 0) {
			t.Errorf("parseUnload(%q) = %v, %d", doc, dependents, version)
		}
		if u, err := parseLogUpdate(doc); err == nil && known && oneEach(doc) {
			if want, ok := values["log_info"].(bool); ok != (u.Info != nil) || ok && *u.Info != want {
				t.Errorf("parseLogUpdate(%q) = %+v", doc, u)
			}
		}
		_, _ = parseTraceUpdate(doc) // it must only return
	})
}

// filesOf decodes the files of a load request's parameters.
func filesOf(t *testing.T, parameters map[string]any) map[string][]byte {
	files := map[string][]byte{}
	for k, v := range parameters {
		if name, ok := strings.CutPrefix(k, "file:"); ok {
			content, err := base64.StdEncoding.DecodeString(v.(string))
			if err != nil {
				t.Errorf("parseLoad accepts the file %q", v)
			}
			files[name] = content
		}
	}
	return files
}

// oneEach reports whether no member name is repeated: encoding/json takes the last of several.
func oneEach(doc []byte) bool {
	return !bytes.Contains(doc, []byte("\\u")) && repeated(doc) == ""
}

// repeated returns a quoted text that is in doc twice.
func repeated(doc []byte) string {
	seen := map[string]bool{}
	for i, part := range bytes.Split(doc, []byte{'"'}) {
		if i%2 == 1 {
			if seen[string(part)] {
				return string(part)
			}
			seen[string(part)] = true
		}
	}
	return ""
}
