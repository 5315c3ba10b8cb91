package cloud

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"

	"nereid/engine/status"
)

// kind is a kind of storage, by the scheme of its addresses.
type kind string

const (
	kindS3    kind = "s3"
	kindGCS   kind = "gs"
	kindAzure kind = "as"
	kindHDFS  kind = "hdfs"
)

// Is reports whether the name of a repository is an address, not a folder.
func Is(name string) bool { return strings.Contains(name, "://") }

// address is the address of a repository.
type address struct {
	kind     kind
	endpoint string // "http://host:port"; "": the provider's
	account  string // of Azure
	bucket   string // or container, or the first folder in HDFS
	prefix   string // "" or with a slash at its end
}

// parseAddress parses an address. Errors: InvalidArg, Unsupported for other storage.
func parseAddress(text string) (address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	a := address{kind: kind(scheme)}
	switch a.kind {
	case kindS3, kindGCS, kindAzure, kindHDFS:
	default:
		return a, status.Errorf(status.Unsupported,
			"model repository %s: %s:// is not supported; use a folder, s3://, gs://, as:// or hdfs://", text, scheme)
	}
	a.endpoint, rest = cutEndpoint(a.kind, rest)
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	if a.kind == kindAzure && len(parts) > 0 {
		a.account = strings.TrimSuffix(parts[0], ".blob.core.windows.net")
		parts = parts[1:]
	}
	if len(parts) == 0 || a.kind == kindAzure && a.account == "" || a.kind == kindHDFS && a.endpoint == "" {
		what := cmp.Or(places[a.kind], "bucket")
		return a, status.Errorf(status.InvalidArg,
			"model repository %s names no %s; write %s", text, what, forms[a.kind])
	}
	a.bucket = parts[0]
	if len(parts) > 1 {
		a.prefix = strings.Join(parts[1:], "/") + "/"
	}
	return a, nil
}

// places says what an address must name, where it is not a bucket.
var places = map[kind]string{kindAzure: "account and container", kindHDFS: "name node and folder"}

var forms = map[kind]string{
	kindS3:    "s3://bucket/path or s3://host:port/bucket/path",
	kindGCS:   "gs://bucket/path",
	kindAzure: "as://account/container/path",
	kindHDFS:  "hdfs://host:9870/path or hdfs://https://host:9871/path",
}

// cutEndpoint splits off http://host:port, https://host:port or, as Triton does for S3, host:port. Without a scheme it
// is plain HTTP. HDFS always has a host.
func cutEndpoint(k kind, rest string) (endpoint, left string) {
	scheme := "http"
	given := false
	for _, s := range []string{"http", "https"} {
		if after, ok := strings.CutPrefix(rest, s+"://"); ok {
			scheme, rest, given = s, after, true
		}
	}
	host, left, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	_, port, err := net.SplitHostPort(host)
	hasPort := err == nil && port != "" && strings.Trim(port, "0123456789") == ""
	if k == kindHDFS {
		if host == "" {
			return "", rest
		}
		if !hasPort {
			host = net.JoinHostPort(strings.Trim(host, "[]"), hdfsPort)
		}
		u, err := url.Parse("http://" + host)
		if err != nil || u.Host != host || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "[]") {
			return "", rest
		}
		return fmt.Sprintf("%s://%s", scheme, host), left
	}
	if k != kindGCS && (given || hasPort) {
		return fmt.Sprintf("%s://%s", scheme, host), left
	}
	return "", rest
}

// String returns the address in a canonical form, for the log and the cache.
func (a address) String() string {
	at := string(a.kind) + "://"
	if a.endpoint != "" {
		at += a.endpoint + "/"
	}
	if a.account != "" {
		at += a.account + "/"
	}
	return at + a.bucket + "/" + a.prefix
}
