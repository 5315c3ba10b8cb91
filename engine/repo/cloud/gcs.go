package cloud

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"nereid/engine/repo"
)

// gcsBucket is a bucket of Google Cloud Storage, read through its JSON API. Two calls do not justify the client
// library, which would add 20 MB to the program.
type gcsBucket struct {
	client *http.Client
	base   string // https://storage.googleapis.com
	name   string
}

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_only"

// openGCS opens a bucket with the given key file, else with Google's default credentials, else anonymously.
// STORAGE_EMULATOR_HOST selects an emulator, which needs no credentials.
func openGCS(ctx context.Context, a address, text string, o Options) (bucket, error) {
	b := &gcsBucket{client: o.client(), base: "https://storage.googleapis.com", name: a.bucket}
	if host := o.env("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		b.base = strings.TrimSuffix(host, "/")
	}
	file, err := o.gcsCredential(text)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, b.client)
	var source oauth2.TokenSource
	switch {
	case file != "":
		key, err := os.ReadFile(string(file))
		if err != nil {
			return nil, fmt.Errorf("the key file of Google Cloud Storage cannot be read: %w", err)
		}
		c, err := google.CredentialsFromJSONWithType(ctx, key, keyType(key), gcsScope)
		if err != nil {
			return nil, fmt.Errorf("%s is not a key file of Google Cloud: %w", file, err)
		}
		source = c.TokenSource
	case o.env("STORAGE_EMULATOR_HOST") != "":
	default:
		// The credentials keep the context for their tokens. It does not bound the search, which has limits of its own.
		c, err := google.FindDefaultCredentials(ctx, gcsScope)
		if err != nil {
			o.Log.Info("no Google credentials were found; the bucket is read anonymously", "repository", text)
			break
		}
		source = c.TokenSource
	}
	if source != nil {
		b.client = oauth2.NewClient(ctx, source)
	}
	return b, nil
}

// keyType returns the kind of credentials in a key file.
func keyType(key []byte) google.CredentialsType {
	var k struct {
		Type google.CredentialsType `json:"type"`
	}
	if json.Unmarshal(key, &k) != nil {
		return google.ServiceAccount // the caller reports the error
	}
	return k.Type
}

// gcsPage is the requested part of a response to objects.list. Format: Google Cloud Storage JSON API v1.
type gcsPage struct {
	NextPageToken string `json:"nextPageToken"`
	Items         []struct {
		Name       string    `json:"name"`
		Size       string    `json:"size"`
		Updated    time.Time `json:"updated"`
		Generation string    `json:"generation"`
		MD5Hash    string    `json:"md5Hash"`
	} `json:"items"`
}

func (b *gcsBucket) list(ctx context.Context, prefix string, each func(repo.File) error) error {
	q := url.Values{"prefix": {prefix}, "fields": {"nextPageToken,items(name,size,updated,generation,md5Hash)"}}
	for {
		resp, err := b.get(ctx, "?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		var page gcsPage
		err = json.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&page)
		_ = resp.Body.Close() // read to its end or broken
		if err != nil {
			return fmt.Errorf("the list of objects cannot be read: %w", err)
		}
		for _, x := range page.Items {
			size, err := strconv.ParseInt(x.Size, 10, 64)
			if err != nil {
				return fmt.Errorf("object %q has the size %q", x.Name, x.Size)
			}
			sum, err := base64.StdEncoding.DecodeString(x.MD5Hash)
			if err != nil || len(sum) != 16 {
				sum = nil // of a composite object
			}
			f := repo.File{Path: x.Name, Size: size, Modified: x.Updated, Tag: x.Generation, MD5: sum}
			if err := each(f); err != nil {
				return err
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		q.Set("pageToken", page.NextPageToken)
	}
}

// maxPage limits a response to objects.list, in bytes.
const maxPage = 64 << 20

func (b *gcsBucket) open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error) {
	h := http.Header{"Accept-Encoding": {"gzip"}} // the bytes as they are stored
	if from > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := b.get(ctx, "/"+url.PathEscape(f.Path)+"?alt=media&generation="+url.QueryEscape(f.Tag), h)
	if err != nil {
		return nil, err
	}
	if from > 0 && resp.StatusCode != http.StatusPartialContent {
		_ = resp.Body.Close() // nothing was read of it
		return nil, errNoRange
	}
	return resp.Body, nil
}

// get makes a request below the objects of the bucket.
func (b *gcsBucket) get(ctx context.Context, path string, h http.Header) (*http.Response, error) {
	address := b.base + "/storage/v1/b/" + url.PathEscape(b.name) + "/o" + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if h != nil {
		req.Header = h
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // it only helps the message
	_ = resp.Body.Close()
	said := fmt.Sprintf("%s: %s", resp.Status, strings.Join(strings.Fields(string(text)), " "))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("storage of Google Cloud refuses the credentials (%s); "+
			"check GOOGLE_APPLICATION_CREDENTIALS, or the file that %s names", said, credentialPath)
	case http.StatusNotFound:
		if strings.Contains(req.URL.RawQuery, "alt=media") {
			return nil, fmt.Errorf("%w (%s)", errChanged, resp.Status)
		}
		return nil, fmt.Errorf("there is no such bucket (%s)", said)
	}
	return nil, fmt.Errorf("storage of Google Cloud answers %s", said)
}
