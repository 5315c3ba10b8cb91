package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"nereid/app/console/imports/staging"
	"nereid/engine/repo"
)

// Desired is what the platform wants on a node.
type Desired struct {
	Models []Model `json:"models"`
}

// Model is a model folder.
type Model struct {
	Name   string `json:"name"`
	Config string `json:"config,omitempty"` // the text of config.pbtxt; "": it is among Files, or there is none
	Files  []File `json:"files"`
	// Fault is why the entry of the desired state cannot be taken; "": it can. If it cannot, the model has only a
	// name, which may be none of a folder.
	Fault string `json:"fault,omitempty"`
}

// File is a file of a model folder, and where it can be fetched.
type File struct {
	Path   string   `json:"path"` // in the model folder, such as 1/model.onnx
	Size   int64    `json:"size"`
	SHA256 string   `json:"sha256"`
	URLs   []string `json:"urls,omitempty"`
	Peers  []string `json:"peers,omitempty"` // URLs of nodes that have the file
}

// Report is what a node tells the platform.
type Report struct {
	Version string        `json:"version"`           // of the program
	Peer    string        `json:"peer,omitempty"`    // where other nodes can fetch files
	Desired string        `json:"desired,omitempty"` // the ETag of the last desired state that the node has
	Models  []ModelReport `json:"models"`
	Files   []string      `json:"files"` // the digests of the files that the node has
	Load    Load          `json:"load"`
}

// ModelReport is the state of a model of the catalog on a node.
type ModelReport struct {
	Name     string          `json:"name"`
	State    string          `json:"state"` // a state constant
	Reason   string          `json:"reason,omitempty"`
	Have     int64           `json:"have_bytes,omitempty"` // while it is pulled
	Size     int64           `json:"size_bytes,omitempty"`
	Versions []VersionReport `json:"versions"` // those that the node knows, also of an earlier publication
}

// The states of a model.
const (
	waiting = "WAITING" // no source has its files yet
	pulling = "PULLING"
	loading = "LOADING"
	ready   = "READY"
	refused = "REFUSED" // by this node; Reason says why
	failed  = "FAILED"  // it is tried again
)

// VersionReport is the state of a version, with the words of the repository index.
type VersionReport struct {
	Version int64  `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// Load is how busy a node is.
type Load struct {
	RequestsPerSecond float64 `json:"requests_per_second"`
	MemoryBytes       int64   `json:"memory_bytes"`
	MemoryFreeBytes   int64   `json:"memory_free_bytes"`
	DiskFreeBytes     int64   `json:"disk_free_bytes"`
}

// digestOf returns the digest of what a model consists of, wherever its files are.
func (m *Model) digestOf() string {
	what := Model{Name: m.Name, Config: m.Config}
	for _, f := range m.Files {
		what.Files = append(what.Files, File{Path: f.Path, Size: f.Size, SHA256: f.SHA256})
	}
	b, _ := json.Marshal(what) //nolint:errchkjson // texts and numbers only
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (m *Model) size() (sum int64) {
	for _, f := range m.Files {
		sum += f.Size
	}
	return sum
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

const (
	maxFiles = 1 << 16 // of a model
	maxSize  = 1 << 46 // of a file, so that no sum overflows
)

// check refuses a model that cannot be a folder of this machine.
func (m *Model) check() error {
	if err := repo.CheckName(m.Name); err != nil {
		return err
	}
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return fmt.Errorf("it has %d files; 1 to %d are taken", len(m.Files), maxFiles)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		clean, err := staging.CleanPath(f.Path)
		switch {
		case err != nil:
			return err
		case clean == "" || clean != f.Path:
			return fmt.Errorf("%q is no path of a file in a model folder", f.Path)
		case f.Path == repo.ConfigName && m.Config != "":
			return errors.New("its configuration is given twice, as config and as a file")
		case f.Size < 0 || !sha256Hex.MatchString(f.SHA256):
			return fmt.Errorf("%s needs a size and a SHA-256 of 64 digits in lower case", f.Path)
		case f.Size > maxSize:
			return fmt.Errorf("%s has more bytes than a disk has", f.Path)
		case seen[strings.ToLower(f.Path)]:
			return fmt.Errorf("%s is there twice", f.Path)
		}
		seen[strings.ToLower(f.Path)] = true
	}
	for _, f := range m.Files {
		for above := path.Dir(f.Path); above != "."; above = path.Dir(above) {
			if seen[strings.ToLower(above)] {
				return fmt.Errorf("%s is a file and a folder", above)
			}
		}
	}
	return nil
}

// parse reads a desired state. A model with faults is refused later, and does not keep the others from being served.
func parse(b []byte) (d Desired, err error) {
	var doc struct {
		Models []json.RawMessage `json:"models"`
	}
	if err = json.Unmarshal(b, &doc); err != nil {
		return d, fmt.Errorf("the desired state is no JSON of the catalog: %w", err)
	}
	if doc.Models == nil {
		return d, errors.New("the desired state has no list of models")
	}
	d.Models = []Model{}
	seen := map[string]int{}
	for _, entry := range doc.Models {
		m := parseModel(entry)
		first, twice := seen[m.Name]
		switch {
		case !twice:
			seen[m.Name] = len(d.Models)
			d.Models = append(d.Models, m)
		case d.Models[first].Fault == "": // no one can say which of them is meant
			d.Models[first] = Model{Name: m.Name, Fault: "the catalog has this name more than once"}
		}
	}
	return d, nil
}

// parseModel reads an entry of the desired state.
func parseModel(entry []byte) (m Model) {
	err := json.Unmarshal(entry, &m) // after a wrong type it goes on, so that the name is known
	if err != nil {
		err = fmt.Errorf("the catalog's entry cannot be read: %w", err)
	} else {
		err = repo.CheckName(m.Name)
	}
	if err == nil {
		m.Fault = ""
		return m
	}
	const most = 255 // bytes of a name
	if len(m.Name) > most {
		m.Name = strings.ToValidUTF8(m.Name[:most], "") + "…"
	}
	return Model{Name: m.Name, Fault: err.Error()}
}
