package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"nereid/engine/status"
)

// ConfigName is the file name of a model's configuration.
const ConfigName = "config.pbtxt"

// Fingerprint is a hash of the names, sizes, modification times, inodes, kinds and permissions of files. It changes
// when the files change. 0 means that there are none.
type Fingerprint uint64

// Model is a model folder as found by a scan.
type Model struct {
	Name string
	// Key identifies the model: its name, and with Options.Namespaces also its repository; see Split.
	Key    string
	Root   string // the repository
	Folder string
	// Config is the path of the configuration file, "" if there is none.
	Config string
	// Shared is the fingerprint of all files that are in no version: configuration, labels, warmup data. Rest is the
	// same without the configuration file.
	Shared, Rest Fingerprint
	// Versions has the fingerprint of every version folder, also of those that the version policy excludes.
	Versions map[int64]Fingerprint
	// Marker is the state of the file ReadyName in the folder.
	Marker Marker
	// Alias says that Name is not the name of the folder.
	Alias bool
	// Err says why the folder could not be read. The other fields are then incomplete.
	Err error

	// fetch copies the files that keep selects by their paths in the model folder; nil: the model is local.
	fetch func(ctx context.Context, keep func(rel string) bool, progress Progress) error
}

// ReadyName is a file in a model folder that says that the other files are complete. A program that copies a model
// writes it last, and again after each change.
const ReadyName = ".ready"

// RequestsFolder is a folder of a model with saved requests. A change in it is no change of the model.
const RequestsFolder = "requests"

// Marker is the state of a file ReadyName.
type Marker int

// The states of a marker.
const (
	NoMarker Marker = iota
	Complete        // it is newer than every other file
	Copying         // another file is newer
)

// Numbers returns the version numbers, ascending.
func (m *Model) Numbers() []int64 {
	return slices.Sorted(maps.Keys(m.Versions))
}

// Equal reports whether nothing changed between two scans of the same folder.
func (m *Model) Equal(o *Model) bool {
	return m.Folder == o.Folder && m.Config == o.Config && m.Shared == o.Shared && (m.Err == nil) == (o.Err == nil) &&
		maps.Equal(m.Versions, o.Versions)
}

// Options are the settings of Scan.
type Options struct {
	Roots []string
	// ConfigName prefers configs/<ConfigName>.pbtxt over config.pbtxt if it exists (--model-config-name).
	ConfigName string
	// Names gives models other names than their folders: by repository, then by folder name. A folder with several
	// names is several models. As in Triton, such a model is taken if another repository has a folder of this name.
	Names map[string]map[string][]string
	// Preferred, if not empty, is the repository whose models are taken if another one has a model of the same name.
	Preferred string
	// Yielding, if not empty, is the repository whose models are not taken if another one has a model of the same name.
	Yielding string
	// Only, if not empty, restricts the scan to models of this name.
	Only string
	// Namespaces allows models of the same name in several repositories. The keys of the result are those of Key.
	Namespaces bool
	// Within, if not empty, restricts a scan with Namespaces to the repository of this namespace.
	Within string
	// Devices, if not nil, holds the file system of each repository when it last was not empty. Scan updates it. A
	// repository that is now empty and on another file system counts as unreadable, because it was unmounted.
	Devices map[string]uint64
	// Remotes are the repositories among Roots that are not local.
	Remotes map[string]Remote
}

// Scan returns the models of all repositories by their keys. unread contains the repositories that cannot be read,
// with the reason. Nothing is known about their models, so a caller keeps its former state. A model folder that cannot
// be read is in the result with its error. Without namespaces, so is a name that is in two repositories, because
// Triton loads neither. A repository that is listed twice is read once.
func Scan(o Options) (models map[string]*Model, unread map[string]error) {
	models, unread = map[string]*Model{}, map[string]error{}
	var seen []string
	for _, root := range o.Roots {
		clean := filepath.Clean(root)
		if slices.Contains(seen, clean) {
			continue
		}
		seen = append(seen, clean)
		if o.Namespaces && o.Within != "" && o.Within != Namespace(root) {
			continue
		}
		found, err := o.scanRoot(root)
		if err != nil {
			unread[root] = err
		}
		for _, m := range found {
			o.add(models, m)
		}
	}
	return models, unread
}

// Folders returns the keys of the models in the local repositories without looking into their folders. It leaves out
// what it cannot read.
func Folders(o Options) (keys []string) {
	for _, root := range o.Roots {
		if o.Remotes[root] != nil {
			continue
		}
		entries, _ := os.ReadDir(root)
		for _, e := range entries {
			for _, name := range o.namesOf(root, e) {
				if CheckName(name) != nil {
					continue
				}
				if o.Namespaces {
					name = Key(root, name)
				}
				keys = append(keys, name)
			}
		}
	}
	return keys
}

// namesOf returns the names of the model in a folder of a repository; none if the entry is not to be read.
func (o *Options) namesOf(root string, e fs.DirEntry) []string {
	names := o.Names[root][e.Name()]
	if names == nil {
		names = []string{e.Name()}
	}
	if o.Only != "" {
		if !slices.Contains(names, o.Only) {
			return nil
		}
		names = []string{o.Only}
	}
	if Ignored(e.Name()) || !isFolder(root, e) {
		return nil
	}
	return names
}

// scanRoot returns the models of one repository.
func (o *Options) scanRoot(root string) (found []*Model, err error) {
	if r := o.Remotes[root]; r != nil {
		if found, err = scanRemote(root, r, o); err != nil {
			err = status.Errorf(status.Internal, "failed to read model repository %s: %w", root, err)
		}
		return found, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, status.Errorf(status.Internal, "failed to read model repository %s: %w", root, err)
	}
	if o.unmounted(root, len(entries)) {
		return nil, status.Errorf(status.Internal,
			"model repository %s is empty and on another file system than before; mount it again", root)
	}
	for _, e := range entries {
		for _, name := range o.namesOf(root, e) {
			m := ScanModel(root, e.Name(), o.ConfigName)
			m.Name, m.Alias = name, name != e.Name()
			found = append(found, m)
		}
	}
	return found, nil
}

// add adds a model to the result. If two models have the same key, and none of them is preferred, neither is loaded.
func (o *Options) add(models map[string]*Model, m *Model) {
	if err := CheckName(m.Name); err != nil {
		m.Err = err
	}
	m.Key = m.Name
	if o.Namespaces {
		m.Key = Key(m.Root, m.Name)
	}
	other := models[m.Key]
	switch {
	case other != nil && (o.prefers(other) || o.yields(m)):
		return
	case other != nil && !o.prefers(m) && !o.yields(other):
		other.Err = status.Errorf(status.InvalidArg, "model '%s' is in two repositories, %s and %s: its name "+
			"must be unique across all model repositories; rename or remove one, "+
			"or start the server with --model-namespacing=true", m.Name, other.Root, m.Root)
		return
	}
	models[m.Key] = m
}

// prefers reports whether a model is taken in place of others of its name.
func (o *Options) prefers(m *Model) bool {
	_, named := o.Names[m.Root][filepath.Base(m.Folder)]
	return named || m.Root == o.Preferred
}

func (o *Options) yields(m *Model) bool { return o.Yielding != "" && m.Root == o.Yielding }

// unmounted reports whether a repository is empty and on another file system than before. It updates o.Devices.
func (o *Options) unmounted(root string, entries int) bool {
	if o.Devices == nil {
		return false
	}
	info, err := os.Stat(root)
	if err != nil {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	device := uint64(st.Dev) //nolint:unconvert // not this type on every system
	if was, known := o.Devices[root]; known && was != device && entries == 0 {
		return true
	}
	if entries > 0 {
		o.Devices[root] = device
	}
	return false
}

func isFolder(parent string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(parent, e.Name()))
	return err == nil && info.IsDir()
}

// Ignored reports whether a file name belongs to an editor, an incomplete copy or a version control system.
func Ignored(name string) bool {
	emacs := strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") // its copies of unsaved text
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || emacs || name == "__pycache__" {
		return true
	}
	switch filepath.Ext(name) {
	case ".pyc", ".swp", ".swx", ".tmp", ".part", ".crdownload":
		return true
	}
	return false
}

// CheckName returns InvalidArg for a model name that is no plain folder name: empty, hidden, of spaces alone (also of
// those without a width), with a separator or a control character, or longer than file systems allow. Line separators
// and characters that change the direction of text are control characters here: such a name looks like another one.
func CheckName(name string) error {
	switch {
	case name == "":
		return status.New(status.InvalidArg, "model name must not be empty")
	case strings.TrimFunc(name, isInvisible) == "":
		return status.Errorf(status.InvalidArg, "model name %q must not be of spaces alone", name)
	case len(name) > 255:
		return status.Errorf(status.InvalidArg, "model name of %d bytes is too long: 255 are allowed", len(name))
	case strings.HasPrefix(name, "."), strings.ContainsAny(name, "/\\"),
		strings.ContainsFunc(name, func(r rune) bool {
			return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		}):
		return status.Errorf(status.InvalidArg, "model name %q must be a plain folder name: "+
			"no path separators, no control characters, no leading dot", name)
	}
	return nil
}

// isInvisible reports whether a character is a space or has no width.
func isInvisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// ParseVersion returns the number of a version folder by its name. ok is false if the name is no version.
func ParseVersion(name string) (n int64, ok bool) {
	if name == "" || name[0] < '1' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil
}

// ScanModel scans one model folder.
func ScanModel(root, name, configName string) *Model {
	m := &Model{Name: name, Key: name, Root: root, Folder: filepath.Join(root, name),
		Versions: map[int64]Fingerprint{}}
	entries, err := os.ReadDir(m.Folder)
	if err != nil {
		m.Err = status.Errorf(status.Internal, "failed to read model folder: %w", err)
		return m
	}
	m.Config = findConfig(m.Folder, configName, entries)
	p := newPrinter(m.Config)
	marked := false
	written := int64(0) // the last change in the folder, by the clock of its file system
	for _, e := range entries {
		path := filepath.Join(m.Folder, e.Name())
		if Ignored(e.Name()) {
			marked = marked || e.Name() == ReadyName
			continue
		}
		if e.Name() == RequestsFolder && e.IsDir() {
			continue
		}
		if v, ok := ParseVersion(e.Name()); ok && isFolder(m.Folder, e) {
			vp := newPrinter("")
			if err := vp.tree(path, 0); err != nil {
				m.Err = errors.Join(m.Err, err)
				continue
			}
			m.Versions[v] = vp.sum()
			written = max(written, vp.written)
			continue
		}
		if err := p.tree(path, 0); err != nil {
			m.Err = errors.Join(m.Err, err)
		}
	}
	m.Shared, m.Rest = p.sum(), nonzero(p.rest)
	if marked {
		m.Marker = marker(filepath.Join(m.Folder, ReadyName), max(written, p.written))
	}
	return m
}

// marker returns the state of a marker file. written is the last change of the other files.
func marker(path string, written int64) Marker {
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return NoMarker
	case changed(info) < written:
		return Copying
	}
	return Complete
}

// changed returns the change time of a file in nanoseconds: of its content, its name or its times. Unlike the
// modification time, programs cannot set it.
func changed(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return changeTime(st)
	}
	return info.ModTime().UnixNano()
}

// findConfig returns the path of a model folder's configuration, "" if there is none.
func findConfig(folder, configName string, entries []fs.DirEntry) string {
	if p := variant(folder, configName); p != "" {
		return p
	}
	for _, e := range entries {
		if e.Name() != ConfigName {
			continue
		}
		p := filepath.Join(folder, ConfigName)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() { // also through a link
			return p
		}
	}
	return ""
}

// variant returns the path of a model folder's configs/<configName>.pbtxt, "" if there is none.
func variant(folder, configName string) string {
	if configName == "" {
		return ""
	}
	p := filepath.Join(folder, "configs", configName+".pbtxt")
	if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return p
}

// ConfigPath returns the path of the configuration that counts in a model folder; the file need not exist.
func ConfigPath(folder, configName string) string {
	return cmp.Or(variant(folder, configName), filepath.Join(folder, ConfigName))
}

// maxDepth limits the nesting of folders below a model, because links can form a loop.
const maxDepth = 16

// printer makes a Fingerprint. It hashes what the file system knows about files and opens none.
type printer struct {
	all, rest hash.Hash64
	skip      string // the path that is not in rest
	written   int64  // the last change of the files and folders
	buf       []byte
}

func newPrinter(skip string) *printer {
	return &printer{all: fnv.New64a(), rest: fnv.New64a(), skip: skip}
}

func (p *printer) sum() Fingerprint { return nonzero(p.all) }

func nonzero(h hash.Hash64) Fingerprint { return Fingerprint(max(h.Sum64(), 1)) }

// tree adds a file, or a folder with everything below it.
func (p *printer) tree(path string, depth int) error {
	if depth > maxDepth {
		return status.Errorf(status.InvalidArg,
			"folders under %s are nested more than %d deep (or a link leads back)", path, maxDepth)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if l, lerr := os.Lstat(path); lerr == nil { // a link without a target counts as a link
			p.file(path, l)
		}
		return nil // removed meanwhile
	}
	if err != nil {
		return status.Errorf(status.Internal, "failed to stat: %w", err)
	}
	p.file(path, info)
	if kind := special(info.Mode()); kind != "" {
		return status.Errorf(status.InvalidArg,
			"%s is a %s: a model folder may have files, folders and links to them; remove it", path, kind)
	}
	if !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return status.Errorf(status.Internal, "failed to read folder: %w", err)
	}
	for _, e := range entries {
		if !Ignored(e.Name()) {
			if err := p.tree(filepath.Join(path, e.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// special names a kind of file that is neither a regular file nor a folder, because reading it may block forever. It
// returns "" for other files.
func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeIrregular != 0:
		return "special file"
	}
	return ""
}

// ignoresTime reports whether a modification time does not depend on the content. Some builds set all times to 1970 or
// 1980, and a time may be in the future. Weights of the same architecture also have the same size, so only the change
// time shows that such a file was overwritten. It is not used for other files, because hard links and new owners
// change it too.
func ignoresTime(info fs.FileInfo) bool {
	const epochs = 315_705_600 // 1980-01-03, in seconds
	return info.ModTime().Unix() < epochs || info.ModTime().UnixNano() > changed(info)+int64(time.Minute)
}

func (p *printer) file(path string, info fs.FileInfo) {
	p.written = max(p.written, changed(info))
	p.buf = append(p.buf[:0], path...)
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	if info.IsDir() {
		// The time of a folder also changes with ignored files. Its entries are hashed separately.
		p.buf = fmt.Appendf(p.buf, "\x00dir\x00")
	} else {
		p.buf = fmt.Appendf(p.buf, "\x00%v\x00%d\x00%d\x00%d\x00",
			info.Mode(), info.Size(), info.ModTime().UnixNano(), inode)
		if ignoresTime(info) {
			p.buf = fmt.Appendf(p.buf, "%d\x00", changed(info))
		}
	}
	p.add(path)
}

// add adds p.buf to the hashes.
func (p *printer) add(path string) {
	_, _ = p.all.Write(p.buf) // a hash never fails
	if path != p.skip {
		_, _ = p.rest.Write(p.buf)
	}
}
