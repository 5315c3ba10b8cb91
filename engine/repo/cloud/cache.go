package cloud

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // it detects broken transfers; the storage provides nothing else
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"nereid/engine/clock"
	"nereid/engine/repo"
)

// cache holds the contents of objects in files that are named by their content. The files of models are hard links to
// them. An interrupted download has the suffix partSuffix.
type cache struct{ dir string }

const (
	partSuffix = ".part"
	// unusedAge is how old a content without links must be before it is removed. A younger one may belong to a
	// download that is not complete.
	unusedAge = time.Hour
	// partAge is how long an interrupted download is kept.
	partAge = 7 * 24 * time.Hour
)

// path returns the path of a file's content.
func (c *cache) path(a address, f repo.File) string {
	what := fmt.Sprintf("%s|%s|%s", a, f.Path, f.Tag)
	switch {
	case f.MD5 != nil:
		what = fmt.Sprintf("md5:%x", f.MD5)
	case strings.HasPrefix(f.Tag, contentTag) && f.Tag != contentTag:
		what = f.Tag
	}
	sum := sha256.Sum256([]byte(what + "|" + strconv.FormatInt(f.Size, 10)))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:]))
}

// prune removes contents that no model uses any more.
func (c *cache) prune() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		limit := unusedAge
		if strings.HasSuffix(e.Name(), partSuffix) {
			limit = partAge
		}
		if !ok || st.Nlink > 1 || time.Since(info.ModTime()) < limit {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(c.dir, e.Name())))
	}
	return errors.Join(errs...)
}

// same reports whether a model's file is a link to a content.
func same(target, object string, size int64) bool {
	t, err := os.Lstat(target)
	if err != nil || !t.Mode().IsRegular() || t.Size() != size {
		return false
	}
	o, err := os.Lstat(object)
	return err == nil && os.SameFile(t, o)
}

// place replaces a model's file by a link to a content, atomically.
func place(object, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	tmp := target + ".tmp" // ignored by scans
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(object, tmp); err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.IsDir() {
		if err := os.RemoveAll(target); err != nil { // an object has replaced a folder
			return err
		}
	}
	return os.Rename(tmp, target)
}

// maxAttempts is how often a download without progress is tried.
const maxAttempts = 5

// download downloads the content of an object to the cache. It continues an interrupted download. The caller holds a
// lock so that objects with the same content are not downloaded at the same time.
func (r *Repository) download(ctx context.Context, f repo.File, object string, p *meter) error {
	if info, err := os.Lstat(object); err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
		p.add(f.Size)
		return nil
	}
	part := object + partSuffix
	if err := r.complete(ctx, f, part, p); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o400); err != nil { // read-only, because models share it
		return err
	}
	return os.Rename(part, object)
}

// complete downloads an object to a file. It continues what is there.
func (r *Repository) complete(ctx context.Context, f repo.File, part string, p *meter) error {
	counted := int64(0) // added to the meter
	for failed := 0; ; {
		before := partSize(part, f.Size)
		p.add(before - counted)
		counted = before
		n, err := r.more(ctx, f, part, before, p)
		counted += n
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || errors.Is(err, errChanged):
			return err
		case errors.Is(err, errNoRange) || errors.Is(err, errCorrupt):
			if rerr := os.Remove(part); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				return rerr
			}
		}
		if failed++; n > 0 && !errors.Is(err, errCorrupt) {
			failed = 1
		}
		if failed >= maxAttempts || permanent(err) {
			return err
		}
		r.o.Log.Warn("a download was interrupted and continues", "repository", r.text, "object", f.Path,
			"have", partSize(part, f.Size), "of", f.Size, "err", err)
		if !clock.Sleep(ctx, cmp.Or(r.o.Pause, time.Second)<<(failed-1)) {
			return context.Cause(ctx)
		}
	}
}

// errCorrupt says that a download differs from the listing.
var errCorrupt = errors.New("the content does not have the size or the MD5 that the storage reports")

// permanent reports an error of the local file system, which another attempt does not solve.
func permanent(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path)
}

// partSize returns the size of an interrupted download, 0 if it is larger than the object.
func partSize(part string, size int64) int64 {
	info, err := os.Lstat(part)
	if err != nil || info.Size() > size {
		return 0
	}
	return info.Size()
}

// more continues a download at offset from. It returns the number of new bytes, and nil if the content is complete.
func (r *Repository) more(ctx context.Context, f repo.File, part string, from int64, p *meter) (n int64, err error) {
	flags := os.O_RDWR | os.O_CREATE
	if from == 0 {
		flags |= os.O_TRUNC
	}
	out, err := os.OpenFile(part, flags, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if from < f.Size {
		if _, err = out.Seek(from, io.SeekStart); err != nil {
			return 0, err
		}
		in, oerr := r.bucket.open(ctx, f, from)
		if oerr != nil {
			return 0, oerr
		}
		defer in.Close() // only read
		n, err = io.Copy(io.MultiWriter(out, p), io.LimitReader(in, f.Size-from+1))
		if err != nil {
			return n, err
		}
		if from+n < f.Size {
			return n, io.ErrUnexpectedEOF
		}
	}
	if from+n != f.Size {
		return n, errCorrupt
	}
	if f.MD5 != nil {
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return n, err
		}
		h := md5.New() //nolint:gosec // see the import
		if _, err := io.Copy(h, out); err != nil {
			return n, err
		}
		if string(h.Sum(nil)) != string(f.MD5) {
			return n, errCorrupt
		}
	}
	return n, out.Sync()
}

// meter adds up the bytes of a copy and reports them every meterInterval.
type meter struct {
	report repo.Progress
	total  int64

	mu   sync.Mutex
	done int64 // guarded by mu, as is last
	last time.Time
}

const meterInterval = 250 * time.Millisecond

// Write counts downloaded bytes.
func (m *meter) Write(b []byte) (int, error) {
	m.add(int64(len(b)))
	return len(b), nil
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	m.done += n
	now := time.Now()
	due := m.report != nil && (now.Sub(m.last) > meterInterval || m.done == m.total)
	if due {
		m.last = now
	}
	done := m.done
	m.mu.Unlock()
	if due {
		m.report(done, m.total)
	}
}
