package get

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"nereid/app/console/imports/staging"
	"nereid/app/download"
)

// ociName is oci:REGISTRY/NAME[:TAG|@DIGEST], by the rules of the OCI distribution specification 1.1.
var ociName = regexp.MustCompile(`^oci:([A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-f:]+\](?::[0-9]+)?)/` +
	`([a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)` +
	`(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`)

var ociDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// registry fetches the manifests and blobs of one name.
type registry struct {
	*getter
	host, name string
	client     *http.Client
	header     http.Header
	asked      bool // for a token
	room       int64
}

// manifest is an OCI or Docker manifest, or an index of manifests.
type manifest struct {
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			OS           string `json:"os"`
			Architecture string `json:"architecture"`
		} `json:"platform"`
	} `json:"manifests"`
	Config struct {
		MediaType string `json:"mediaType"`
	} `json:"config"`
	Layers []layer `json:"layers"`
}

type layer struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// accepted are the media types of manifests.
const accepted = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, " +
	"application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json"

func (o *getter) fromRegistry(ctx context.Context) ([]staged, error) {
	m := ociName.FindStringSubmatch(o.source)
	if m == nil {
		return nil, fmt.Errorf("%q is no name in a registry; want oci:REGISTRY/NAME, oci:REGISTRY/NAME:TAG or "+
			"oci:REGISTRY/NAME@sha256:DIGEST", o.source)
	}
	r := &registry{getter: o, host: m[1], name: m[2], client: download.NewClient(), header: http.Header{},
		room: o.maxBytes()}
	about, sum, err := r.manifest(ctx, cmp.Or(m[4], m[3], "latest"))
	if err != nil {
		return nil, err
	}
	if o.sha256 != "" && !strings.EqualFold(o.sha256, sum) {
		return nil, fmt.Errorf("the manifest has the SHA-256 %s, not %s of --sha256; nothing was kept", sum, o.sha256)
	}
	dir := filepath.Join(o.work.models(), "0")
	area, err := staging.NewArea(dir, staging.Limits{Bytes: o.maxBytes()})
	if err != nil {
		return nil, err
	}
	p := provenance{Model: staging.ModelName(path.Base(m[2])), Source: o.source, From: r.host + "/" + r.name,
		Revision: "sha256:" + sum, SHA256: sum}
	for _, l := range about.Layers {
		if err := r.layer(ctx, area, about, l); err != nil {
			return nil, err
		}
		p.Bytes += l.Size
	}
	return o.arrangeArea(area, path.Base(m[2]), p)
}

// base is the URL of the registry's API.
func (r *registry) base() string {
	scheme := "http"
	if u := (&url.URL{Scheme: scheme, Host: r.host}); download.CheckScheme(u) != nil {
		scheme = "https"
	}
	return scheme + "://" + r.host + "/v2/" + r.name
}

// manifest fetches a manifest by its tag or digest. Of an index it takes the one for this machine, or else the first.
func (r *registry) manifest(ctx context.Context, reference string) (m manifest, sum string, err error) {
	for range 2 {
		var b []byte
		if b, sum, err = r.manifestFile(ctx, reference); err != nil {
			return m, "", err
		}
		m = manifest{}
		if err := json.Unmarshal(b, &m); err != nil {
			return m, "", fmt.Errorf("%s does not answer as a registry: %w", r.host, err)
		}
		if len(m.Manifests) == 0 {
			break
		}
		reference = m.Manifests[0].Digest
		for _, one := range m.Manifests {
			if one.Platform.OS == "linux" && one.Platform.Architecture == runtime.GOARCH {
				reference = one.Digest
				break
			}
		}
		if !ociDigest.MatchString(reference) {
			return m, "", fmt.Errorf("the digest %q is not of SHA-256, which is needed", reference)
		}
	}
	if len(m.Layers) == 0 {
		return m, "", fmt.Errorf("%s/%s has no files", r.host, r.name)
	}
	return m, sum, nil
}

func (r *registry) manifestFile(ctx context.Context, reference string) (b []byte, sum string, err error) {
	file := filepath.Join(r.work.models(), "manifest-"+strings.ReplaceAll(reference, ":", "-"))
	if err := r.download(ctx, "/manifests/"+reference, file, maxIndex, accepted); err != nil {
		return nil, "", err
	}
	want, _ := strings.CutPrefix(reference, "sha256:")
	if want == reference {
		want = "" // a tag
	}
	if sum, _, err = download.Digest(file, want, "the name"); err == nil {
		b, err = os.ReadFile(file)
	}
	return b, sum, err
}

// layer fetches one layer and puts its files into the area. A layer is a file with a title, or an archive.
func (r *registry) layer(ctx context.Context, area *staging.Area, m manifest, l layer) error {
	if !ociDigest.MatchString(l.Digest) {
		return fmt.Errorf("the digest %q is not of SHA-256, which is needed", l.Digest)
	}
	title := cmp.Or(l.Annotations["org.opencontainers.image.title"], l.Annotations["org.cncf.model.filepath"])
	kind := archiveOf(l)
	image := strings.Contains(m.Config.MediaType, "image.config") ||
		strings.Contains(m.Config.MediaType, "container.image")
	switch {
	case kind == "zstd":
		return fmt.Errorf("a layer of %s is compressed with zstd, which is not read; push it with gzip", r.name)
	case kind == "" && title == "":
		return nil // metadata
	}
	if l.Size > r.room {
		return fmt.Errorf("%s has more than %d bytes; --max-size allows more", r.name, r.maxBytes())
	}
	file := filepath.Join(r.work.downloads(), strings.TrimPrefix(l.Digest, "sha256:"))
	if err := r.download(ctx, "/blobs/"+l.Digest, file, r.room, ""); err != nil {
		return err
	}
	_, size, err := download.Digest(file, strings.TrimPrefix(l.Digest, "sha256:"), "the manifest")
	if err != nil {
		return err
	}
	r.room -= size
	if kind == "" {
		return putFile(area, file, title)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	under := ""
	if image { // its other files are an operating system
		under = "models"
	}
	return area.PutArchive(f, kind, under)
}

// archiveOf returns what kind of archive a layer is: "tar", "tgz", "zstd", or "" for a file.
func archiveOf(l layer) string {
	kind := l.MediaType
	switch {
	case strings.HasSuffix(kind, "+zstd"):
		return "zstd"
	case strings.HasSuffix(kind, ".tar+gzip"), strings.HasSuffix(kind, ".tar.gzip"),
		l.Annotations["io.deis.oras.content.unpack"] == "true":
		return "tgz"
	case strings.HasSuffix(kind, ".tar"):
		return "tar"
	}
	return ""
}

// download fetches a path of the name. It asks for a token when the registry demands one.
func (r *registry) download(ctx context.Context, at, file string, most int64, accept string) error {
	for {
		d := r.getter.download(r.base()+at, r.client, most)
		d.Header = r.header.Clone()
		if accept != "" {
			d.Header.Set("Accept", accept)
		}
		err := d.To(ctx, file)
		status, ok := errors.AsType[*download.StatusError](err)
		switch {
		case !ok:
			return err
		case status.Code == http.StatusUnauthorized && !r.asked:
			r.asked = true
			if err := r.authorize(ctx, status.Header.Get("WWW-Authenticate")); err != nil {
				return fmt.Errorf("%s: %w", r.host, err)
			}
		case status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden:
			return fmt.Errorf("%s does not let you read %s; log in with docker login %s, or oras login, without a "+
				"credential helper (%w)", r.host, r.name, r.host, err)
		case status.Code == http.StatusNotFound:
			return fmt.Errorf("%s has no such name, tag or file: %w", r.host, err)
		default:
			return err
		}
	}
}

var challengeField = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// authorize answers a challenge: with the user's login, or with a token that the registry's token service gives for it.
func (r *registry) authorize(ctx context.Context, challenge string) error {
	login := r.login()
	scheme, rest, _ := strings.Cut(challenge, " ")
	if strings.EqualFold(scheme, "Basic") && login != "" {
		r.header.Set("Authorization", "Basic "+login)
		return nil
	}
	fields := map[string]string{}
	for _, m := range challengeField.FindAllStringSubmatch(rest, -1) {
		fields[m[1]] = m[2]
	}
	realm, err := url.Parse(fields["realm"])
	if err != nil || !strings.EqualFold(scheme, "Bearer") || realm.Host == "" {
		return nil // the next answer is an error
	}
	if err := download.CheckReferral(&url.URL{Host: r.host}, realm); err != nil {
		return fmt.Errorf("the token service: %w", err)
	}
	realm.RawQuery = url.Values{"service": {fields["service"]}, "scope": {cmp.Or(fields["scope"],
		"repository:"+r.name+":pull")}}.Encode()
	file := filepath.Join(r.work.models(), "token")
	d := r.getter.download(realm.String(), r.client, maxIndex)
	d.Shown, d.Header = download.Plain(realm), http.Header{}
	if login != "" {
		d.Header.Set("Authorization", "Basic "+login)
	}
	if err := d.To(ctx, file); err != nil {
		return fmt.Errorf("the token service: %w", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("the token service at %s gives no token: %w", realm.Host, err)
	}
	r.header.Set("Authorization", "Bearer "+cmp.Or(answer.Token, answer.AccessToken))
	return nil
}

// login returns the user's login in Docker's configuration as the value of Basic; "" if there is none.
func (r *registry) login() string {
	dir, ok := r.env.Lookup("DOCKER_CONFIG")
	if !ok {
		home, _ := r.env.Lookup("HOME")
		dir = filepath.Join(home, ".docker")
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return ""
	}
	var config struct {
		Auths map[string]struct {
			Auth string `json:"auth"`
		} `json:"auths"`
	}
	if json.Unmarshal(b, &config) != nil {
		return ""
	}
	auth := config.Auths[r.host].Auth
	if _, err := base64.StdEncoding.DecodeString(auth); err != nil {
		return ""
	}
	return auth
}
