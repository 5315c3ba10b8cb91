package repo

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nereid/engine/status"
)

// ConfigName is the file name of a model's configuration.
const ConfigName = "config.pbtxt"

// Print is a fingerprint of files: of their names, sizes, modification times, inodes, kinds and permissions. Equal prints mean
// "not changed"; 0 stands for nothing there.
type Print uint64

// Model is what a scan found in one model folder.
type Model struct {
	Name string
	// Key tells the model from the others: its name, and with Options.Namespaces its repository too; see Split.
	Key    string
	Root   string // the repository
	Folder string
	// Config is the path of the configuration file, "" if there is none.
	Config string
	// Shared is the print of everything in the folder that is not in a version: configuration, labels, warmup data. Rest
	// is the same without the configuration file.
	Shared, Rest Print
	// Versions holds the print of every version folder, also of those that a version policy leaves out.
	Versions map[int64]Print
	// Marker says what a file ReadyName in the folder tells of a copy.
	Marker Marker
	// Alias says that Name is not the folder's.
	Alias bool
	// Err says why the folder could not be read. The rest is then incomplete.
	Err error

	// fetch brings the files that keep takes, by their paths in the model folder; nil: they are here.
	fetch func(ctx context.Context, keep func(rel string) bool, progress func(done, total int64)) error
}

// ReadyName is the file in a model folder that tells polling that the others are whole: who copies writes it last, and again
// after each change.
const ReadyName = ".ready"

// Marker is what a file ReadyName tells.
type Marker int

const (
	NoMarker Marker = iota
	Whole           // it was written after every other file
	Copying         // something was written after it
)

// Numbers returns the version numbers, ascending.
func (m *Model) Numbers() []int64 {
	all := make([]int64, 0, len(m.Versions))
	for v := range m.Versions {
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}

// Equal reports whether nothing changed between two scans of the same folder.
func (m *Model) Equal(o *Model) bool {
	if m.Folder != o.Folder || m.Config != o.Config || m.Shared != o.Shared || len(m.Versions) != len(o.Versions) ||
		(m.Err == nil) != (o.Err == nil) {
		return false
	}
	for v, p := range m.Versions {
		if q, ok := o.Versions[v]; !ok || p != q {
			return false
		}
	}
	return true
}

// Options say where and how to look.
type Options struct {
	Roots []string
	// ConfigName picks configs/<ConfigName>.pbtxt over config.pbtxt where it exists (--model-config-name).
	ConfigName string
	// Names gives models other names than their folders': by repository, then by folder name.
	Names map[string]map[string]string
	// Only, if not empty, restricts the scan to models of this name.
	Only string
	// Namespaces lets repositories have models of one name: the keys of the result are those of Key.
	Namespaces bool
	// Within, if not empty, restricts a scan with Namespaces to the repository of this namespace.
	Within string
	// Devices, if not nil, is kept by Scan from call to call: the file system of each repository when it last had
	// anything in it. An empty one on another file system than before counts as unread: it was unmounted.
	Devices map[string]uint64
	// Remotes holds the repositories among Roots that are no folders of this machine.
	Remotes map[string]Remote
}

// Scan lists the models of all repositories by their keys. unread holds the repositories that cannot be read, with the reason:
// of their models nothing is known, and a caller keeps what it has. A model folder that cannot be read is in the result
// with its error. Unless there are namespaces, a name that occurs in two repositories is in the result with an error too, as
// Triton serves neither. A repository that is named twice is looked at once.
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
		if r := o.Remotes[root]; r != nil {
			there, err := scanRemote(root, r, o)
			if err != nil {
				unread[root] = status.Errorf(status.Internal, "failed to read model repository %s: %w", root, err)
			}
			for _, m := range there {
				o.add(models, m)
			}
			continue
		}
		entries, err := os.ReadDir(root)
		if err != nil {
			unread[root] = status.Errorf(status.Internal, "failed to read model repository %s: %w", root, err)
			continue
		}
		if o.unmounted(root, len(entries)) {
			unread[root] = status.Errorf(status.Internal, "model repository %s is empty and on another file system than before; mount it again", root)
			continue
		}
		for _, e := range entries {
			folder := e.Name()
			name, alias := o.Names[root][folder]
			if !alias {
				name = folder
			}
			if Ignored(folder) || o.Only != "" && name != o.Only || !isFolder(root, e) {
				continue
			}
			m := ScanModel(root, folder, o.ConfigName)
			m.Name, m.Alias = name, alias
			o.add(models, m)
		}
	}
	return models, unread
}

// add notes a model that was found. Of two with one key neither can be served.
func (o *Options) add(models map[string]*Model, m *Model) {
	if err := CheckName(m.Name); err != nil {
		m.Err = err
	}
	m.Key = m.Name
	if o.Namespaces {
		m.Key = Key(m.Root, m.Name)
	}
	if other := models[m.Key]; other != nil {
		other.Err = status.Errorf(status.InvalidArg, "model '%s' is in two repositories, %s and %s: its name must be "+
			"unique across all model repositories; rename or remove one, or start the server with --model-namespacing=true", m.Name, other.Root, m.Root)
		return
	}
	models[m.Key] = m
}

// unmounted compares a repository's file system with the one that it was on, and notes it.
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

// Ignored reports whether a file name belongs to an editor, a copy under way or a version control system.
func Ignored(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || name == "__pycache__" {
		return true
	}
	switch filepath.Ext(name) {
	case ".pyc", ".swp", ".swx", ".tmp", ".part", ".crdownload":
		return true
	}
	return false
}

// CheckName returns InvalidArg for a model name that is no plain folder name: empty, with a separator, a NUL or a
// control character, "." or "..", hidden, or longer than file systems take.
func CheckName(name string) error {
	switch {
	case name == "":
		return status.New(status.InvalidArg, "model name must not be empty")
	case len(name) > 255:
		return status.Errorf(status.InvalidArg, "model name of %d bytes is too long: 255 are allowed", len(name))
	case strings.HasPrefix(name, "."), strings.ContainsAny(name, "/\\\x00"), strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return status.Errorf(status.InvalidArg, "model name %q must be a plain folder name: no path separators, no control characters, no leading dot", name)
	}
	return nil
}

// ParseVersion returns the number of a version folder's name; ok is false if it is none.
func ParseVersion(name string) (n int64, ok bool) {
	if name == "" || name[0] < '1' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil
}

// ScanModel looks at one model folder.
func ScanModel(root, name, configName string) *Model {
	m := &Model{Name: name, Key: name, Root: root, Folder: filepath.Join(root, name), Versions: map[int64]Print{}}
	entries, err := os.ReadDir(m.Folder)
	if err != nil {
		m.Err = status.Errorf(status.Internal, "failed to read model folder: %w", err)
		return m
	}
	m.Config = findConfig(m.Folder, configName, entries)
	p := newPrinter()
	p.skip = m.Config
	marked := false
	written := int64(0) // when something in the folder changed last, by the clock of its file system
	for _, e := range entries {
		path := filepath.Join(m.Folder, e.Name())
		if Ignored(e.Name()) {
			marked = marked || e.Name() == ReadyName
			continue
		}
		if v, ok := ParseVersion(e.Name()); ok && isFolder(m.Folder, e) {
			vp := newPrinter()
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

// marker compares a marker with when the other files changed last.
func marker(path string, written int64) Marker {
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return NoMarker
	case changed(info) < written:
		return Copying
	}
	return Whole
}

// changed is when a file changed, in nanoseconds: its content, its name or its times. Unlike the modification time nobody sets it.
func changed(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return changeTime(st)
	}
	return info.ModTime().UnixNano()
}

// findConfig returns the path of a model folder's configuration, "" if there is none.
func findConfig(folder, configName string, entries []fs.DirEntry) string {
	if configName != "" {
		p := filepath.Join(folder, "configs", configName+".pbtxt")
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	for _, e := range entries {
		if e.Name() != ConfigName {
			continue
		}
		p := filepath.Join(folder, ConfigName)
		if e.Type().IsRegular() {
			return p
		}
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() { // by a link
			return p
		}
	}
	return ""
}

// maxDepth bounds the folders below a model, so that a link loop ends.
const maxDepth = 16

// printer hashes what the file system says of files. FNV of a few dozen bytes a file: no file is opened.
type printer struct {
	all, rest hash.Hash64
	skip      string // not in rest
	written   int64  // when one of the files and folders changed last
	buf       []byte
}

func newPrinter() *printer { return &printer{all: fnv.New64a(), rest: fnv.New64a()} }

func (p *printer) sum() Print { return nonzero(p.all) }

func nonzero(h hash.Hash64) Print { return Print(max(h.Sum64(), 1)) }

func (p *printer) tree(path string, depth int) error {
	if depth > maxDepth {
		return status.Errorf(status.InvalidArg, "folders under %s are nested more than %d deep (or a link leads back)", path, maxDepth)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if l, lerr := os.Lstat(path); lerr == nil { // a dangling link counts as what it is
			p.file(path, l)
		}
		return nil // gone between listing and looking
	}
	if err != nil {
		return status.Errorf(status.Internal, "failed to stat: %w", err)
	}
	p.file(path, info)
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeIrregular) != 0 {
		return status.Errorf(status.InvalidArg, "%s is a %s: a model folder may have files, folders and links to them; remove it", path, special(info.Mode()))
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

// special names what is neither a file nor a folder: reading it may never end.
func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// saysNothing reports a modification time that is the same for every content: that of builds which set all times to 1970 or
// 1980, or one in the future. Weights of one architecture have one size too, so that such a file overwritten in place looks the
// same but for its change time. That is not taken where it is not needed: it changes with hard links and owners too.
func saysNothing(info fs.FileInfo) bool {
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
		// A folder's own time changes with files that do not count; its entries are hashed themselves.
		p.buf = fmt.Appendf(p.buf, "\x00dir\x00")
	} else {
		p.buf = fmt.Appendf(p.buf, "\x00%v\x00%d\x00%d\x00%d\x00", info.Mode(), info.Size(), info.ModTime().UnixNano(), inode)
		if saysNothing(info) {
			p.buf = fmt.Appendf(p.buf, "%d\x00", changed(info))
		}
	}
	_, _ = p.all.Write(p.buf) // a hash never fails
	if path != p.skip {
		_, _ = p.rest.Write(p.buf)
	}
}
