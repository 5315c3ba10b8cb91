package cloud

import (
	"context"
	"crypto/md5" //nolint:gosec // it finds broken transfers; the storage offers nothing else
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

// cache holds the contents of objects in files whose names tell what they are. The files of models are hard links to
// them; one that nothing links to is not needed. A download that was broken off is beside them, with partSuffix.
type cache struct{ dir string }

const partSuffix = ".part"

// path is where a file's content is kept.
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

// unused is how old a content must be that nothing links to before it is removed: it may be on its way to a model.
const unused = time.Hour

// keepPart is how long a download that was broken off is kept.
const keepPart = 7 * 24 * time.Hour

// prune removes contents that no model has any more.
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
		limit := unused
		if strings.HasSuffix(e.Name(), partSuffix) {
			limit = keepPart
		}
		if !ok || st.Nlink > 1 || time.Since(info.ModTime()) < limit {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(c.dir, e.Name())))
	}
	return errors.Join(errs...)
}

// same reports whether a model's file is the content that is wanted.
func same(target, object string, size int64) bool {
	t, err := os.Lstat(target)
	if err != nil || !t.Mode().IsRegular() || t.Size() != size {
		return false
	}
	o, err := os.Lstat(object)
	return err == nil && os.SameFile(t, o)
}

// place makes the model's file from the content, in one step.
func place(object, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	tmp := target + ".tmp" // which a scan ignores
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(object, tmp); err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.IsDir() {
		if err := os.RemoveAll(target); err != nil { // an object took the place of a folder
			return err
		}
	}
	return os.Rename(tmp, target)
}

// attempts is how often a download is tried that makes no progress.
const attempts = 5

// download brings an object's content into the cache, from where an earlier download was broken off. Objects with the
// same content are not downloaded at once: the caller holds a lock.
func (r *Repository) download(ctx context.Context, f repo.File, object string, p *meter) error {
	if info, err := os.Lstat(object); err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
		p.add(f.Size)
		return nil
	}
	part := object + partSuffix
	pause := r.o.Pause
	if pause == 0 {
		pause = time.Second
	}
	counted := int64(0) // told to the meter
	for failed := 0; ; {
		before := partSize(part, f.Size)
		p.add(before - counted)
		counted = before
		n, err := r.more(ctx, f, part, before, p)
		counted += n
		switch {
		case err == nil:
			if err := os.Chmod(part, 0o400); err != nil { // models share it
				return err
			}
			return os.Rename(part, object)
		case ctx.Err() != nil || errors.Is(err, errChanged):
			return err
		case errors.Is(err, errNoRange) || errors.Is(err, errBroken):
			if rerr := os.Remove(part); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				return rerr
			}
		}
		if failed++; n > 0 && !errors.Is(err, errBroken) {
			failed = 1
		}
		if failed >= attempts || permanent(err) {
			return err
		}
		r.o.Log.Warn("a download was broken off and goes on", "repository", r.text, "object", f.Path, "have", partSize(part, f.Size), "of", f.Size, "err", err)
		if !clock.Sleep(ctx, pause<<(failed-1)) {
			return context.Cause(ctx)
		}
	}
}

// errBroken: what was downloaded is not what was listed.
var errBroken = errors.New("the content does not have the size or the MD5 that the storage tells")

// permanent reports an error that another try does not mend: one of this machine's.
func permanent(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path)
}

// partSize is what there is of a download; more than there can be counts as nothing.
func partSize(part string, size int64) int64 {
	info, err := os.Lstat(part)
	if err != nil || info.Size() > size {
		return 0
	}
	return info.Size()
}

// more appends to what there is of an object. It returns how many bytes came, and nil when the content is whole.
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
		return n, errBroken
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
			return n, errBroken
		}
	}
	return n, out.Sync()
}

// meter adds up what is here and tells of it, a few times a second.
type meter struct {
	tell  func(done, total int64)
	total int64

	mu   sync.Mutex
	done int64 // guarded by mu, as is last
	last time.Time
}

// Write counts what is downloaded.
func (m *meter) Write(b []byte) (int, error) {
	m.add(int64(len(b)))
	return len(b), nil
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	m.done += n
	now := time.Now()
	due := m.tell != nil && (now.Sub(m.last) > 250*time.Millisecond || m.done == m.total)
	if due {
		m.last = now
	}
	done := m.done
	m.mu.Unlock()
	if due {
		m.tell(done, m.total)
	}
}
