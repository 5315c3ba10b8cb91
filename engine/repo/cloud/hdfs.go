package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"nereid/engine/repo"
)

// hdfsFolder is a folder of a Hadoop file system, read through WebHDFS, the REST API of its name node and of HttpFS.
// Three calls do not justify a client library.
type hdfsFolder struct {
	client *http.Client
	base   string // http://host:port/webhdfs/v1/bucket
	root   string // the folder of the repository below base, "" or with a slash at its end
	user   string // "": none is named
}

// hdfsPort is the default port of a name node for WebHDFS.
const hdfsPort = "9870"

// hdfsUser is Hadoop's environment variable with the name of the user.
const hdfsUser = "HADOOP_USER_NAME"

func openHDFS(_ context.Context, a address, _ string, o Options) (bucket, error) {
	base := a.endpoint + "/webhdfs/v1/" + url.PathEscape(a.bucket)
	client := o.client()
	client.CheckRedirect = checkHDFSRedirect
	return &hdfsFolder{client: client, base: base, root: a.prefix, user: o.env(hdfsUser)}, nil
}

// checkHDFSRedirect lets a name node send the reader of a file to a data node, and not from HTTPS to HTTP.
func checkHDFSRedirect(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > 2 || first.Query().Get("op") != "OPEN" || first.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("the server redirects to %s://%s, which is not followed", r.URL.Scheme, r.URL.Host)
	}
	return nil
}

// hdfsStatus is an entry of a folder. Format: FileStatus of WebHDFS.
type hdfsStatus struct {
	Name     string `json:"pathSuffix"`
	Type     string `json:"type"` // FILE, DIRECTORY or SYMLINK
	Length   int64  `json:"length"`
	Modified int64  `json:"modificationTime"` // milliseconds since 1970
	ID       int64  `json:"fileId"`           // no other file of the file system ever has it; 0 from HttpFS
}

// tag changes whenever a file is written again. HDFS does not change files in place, it only appends.
func (s hdfsStatus) tag() string { return fmt.Sprintf("%d-%d-%d", s.ID, s.Modified, s.Length) }

// errNoHDFS says that a path does not exist.
var errNoHDFS = errors.New("there is no such folder or file")

// maxHDFSDepth limits how many folders are in each other, and maxFiles how many there are: a server that makes up more
// and more of them would keep a listing from its end.
const maxHDFSDepth = 128

// list lists the folders below the prefix.
func (b *hdfsFolder) list(ctx context.Context, prefix string, each func(repo.File) error) error {
	left := maxFiles
	return b.walk(ctx, prefix, &left, each)
}

// walk lists at most so many folders as are left. A folder that is removed meanwhile has no files.
func (b *hdfsFolder) walk(ctx context.Context, prefix string, left *int, each func(repo.File) error) error {
	dir, begin := path.Split(prefix)
	if strings.Count(dir, "/") > maxHDFSDepth {
		return fmt.Errorf("more than %d folders are in each other; name a path with fewer", maxHDFSDepth)
	}
	if *left--; *left < 0 {
		return fmt.Errorf("there are more than %d folders; name a path with fewer", maxFiles)
	}
	entries, err := b.entries(ctx, dir)
	switch {
	case errors.Is(err, errNoHDFS) && dir != b.root:
		return nil
	case err != nil:
		return err
	}
	// HttpFS promises no order.
	slices.SortFunc(entries, func(a, b hdfsStatus) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, begin) {
			continue
		}
		at := dir + e.Name
		switch e.Type {
		case "FILE":
			f := repo.File{Path: at, Size: e.Length, Modified: time.UnixMilli(e.Modified), Tag: e.tag()}
			err = each(f)
		case "DIRECTORY":
			if err = each(repo.File{Path: at + "/"}); err == nil {
				err = b.walk(ctx, at+"/", left, each)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *hdfsFolder) entries(ctx context.Context, dir string) ([]hdfsStatus, error) {
	body, err := b.get(ctx, dir, "LISTSTATUS", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close() // only read
	return decodeHDFSFolder(io.LimitReader(body, maxPage))
}

// decodeHDFSFolder decodes a response to LISTSTATUS. The names are those of entries of one folder.
func decodeHDFSFolder(r io.Reader) ([]hdfsStatus, error) {
	var page struct {
		FileStatuses *struct {
			FileStatus []hdfsStatus
		}
	}
	if err := json.NewDecoder(r).Decode(&page); err != nil {
		return nil, fmt.Errorf("the list of a folder cannot be read: %w", err)
	}
	if page.FileStatuses == nil {
		return nil, fmt.Errorf("the server does not answer as WebHDFS does; name its HTTP port, which is %s by default",
			hdfsPort)
	}
	for _, e := range page.FileStatuses.FileStatus {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.Contains(e.Name, "/") {
			return nil, fmt.Errorf("the list of a folder has the name %q; name a folder, not a file", e.Name)
		}
		if e.Length < 0 {
			return nil, fmt.Errorf("file %q has the size %d", e.Name, e.Length)
		}
	}
	return page.FileStatuses.FileStatus, nil
}

// open reads a file. OPEN has no condition, so the file is looked at before and after: bytes are of the listed file if
// both times it is that one.
func (b *hdfsFolder) open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error) {
	if err := b.unchanged(ctx, f); err != nil {
		return nil, err
	}
	body, err := b.get(ctx, f.Path, "OPEN", url.Values{"offset": {fmt.Sprint(from)}})
	if errors.Is(err, errNoHDFS) {
		err = errChanged
	}
	if err != nil {
		return nil, err
	}
	return &hdfsFile{ReadCloser: body, unchanged: func() error { return b.unchanged(ctx, f) }}, nil
}

func (b *hdfsFolder) unchanged(ctx context.Context, f repo.File) error {
	body, err := b.get(ctx, f.Path, "GETFILESTATUS", nil)
	if errors.Is(err, errNoHDFS) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer body.Close() // only read
	var now struct{ FileStatus hdfsStatus }
	if err := json.NewDecoder(io.LimitReader(body, maxPage)).Decode(&now); err != nil {
		return fmt.Errorf("the status of a file cannot be read: %w", err)
	}
	if now.FileStatus.tag() != f.Tag {
		return errChanged
	}
	return nil
}

// hdfsFile is the content of a file.
type hdfsFile struct {
	io.ReadCloser
	unchanged func() error
}

func (f *hdfsFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		return n, cmp.Or(f.unchanged(), err)
	}
	return n, err
}

// get makes a request for a path below the bucket. The name node redirects to the data node that has the content.
func (b *hdfsFolder) get(ctx context.Context, at, op string, q url.Values) (io.ReadCloser, error) {
	if q == nil {
		q = url.Values{}
	}
	q.Set("op", op)
	if b.user != "" {
		q.Set("user.name", b.user)
	}
	address := strings.TrimSuffix(b.base+"/"+(&url.URL{Path: at}).EscapedPath(), "/") + "?" + q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // it only helps the message
	_ = resp.Body.Close()
	return nil, b.refusal(resp, text)
}

// refusal explains a response that is no success.
func (b *hdfsFolder) refusal(resp *http.Response, text []byte) error {
	var said struct {
		RemoteException struct{ Exception, Message string }
	}
	if json.Unmarshal(text, &said) != nil || said.RemoteException.Exception == "" {
		said.RemoteException.Message = strings.Join(strings.Fields(string(text[:min(len(text), 512)])), " ")
	}
	e := said.RemoteException
	what := strings.TrimSpace(resp.Status + ": " + e.Exception + " " + e.Message)
	switch {
	case e.Exception == "FileNotFoundException":
		return fmt.Errorf("%w (%s)", errNoHDFS, what)
	case e.Exception == "StandbyException":
		return fmt.Errorf("the name node is on standby (%s); name the active one, or HttpFS", what)
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("HDFS refuses the credentials (%s); its WebHDFS must accept the user that %s names, "+
			"because Kerberos is not supported", what, hdfsUser)
	case resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("HDFS refuses the credentials of user %q (%s); check %s", b.user, what, hdfsUser)
	}
	return fmt.Errorf("HDFS answers %s; it must be the HTTP port of WebHDFS, which is %s by default", what, hdfsPort)
}
