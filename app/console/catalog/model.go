package catalog

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
)

// Model is a model and where it is.
type Model struct {
	Name       string
	Status     lifecycle.ModelStatus // as the engine sees it; only the name is set if the engine does not know it
	Repository string
	Folder     string  // "" if there is none
	ConfigPath string  // of the configuration file, whether it exists or not
	Text       *string // of that file; nil: there is none
	Copied     bool    // Folder is the copy of a model in a remote repository
}

// findCopy finds the local copy of a model in a remote repository. Without a copy there is no folder.
func (c *Catalog) findCopy(m *Model) error {
	m.Repository, m.Copied, m.ConfigPath = m.Status.Repository, true, repo.ConfigPath(m.Status.Folder, c.ConfigName)
	if !isFolder(m.Status.Folder) {
		return nil
	}
	m.Folder = m.Status.Folder
	return m.readConfig()
}

func (m *Model) readConfig() (err error) {
	m.Text, err = ReadConfig(m.ConfigPath)
	return err
}

// ReadConfig reads a configuration file; nil if there is none.
func ReadConfig(path string) (*string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, rest.Errorf(api.CodeInvalid, "%s is not a regular file", path)
	case info.Size() > rest.MaxBody:
		return nil, rest.Errorf(api.CodeTooLarge, "%s has %d bytes, more than the editor takes", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

// Writable reports whether this server may change the model's folder. The next load would overwrite a copy.
func (m *Model) Writable() bool { return !m.Copied && folders.Writable(m.Folder) }

// CheckEditable returns why the model's configuration cannot be changed here, nil if it can.
func (m *Model) CheckEditable() error {
	switch {
	case m.Folder == "":
		return rest.Errorf(api.CodeNotFound, "model %q has no folder in a repository", m.Name)
	case m.Copied:
		return rest.Errorf(api.CodeForbidden, "model %q is in %s, which this server only reads; change it there",
			m.Name, m.Repository)
	case !m.Writable():
		return rest.Errorf(api.CodeForbidden, "%s cannot be written by this server", m.Folder)
	}
	return nil
}

// Running returns the configuration of the newest version in service, nil if there is none.
func Running(st lifecycle.ModelStatus) *inferencepb.ModelConfig {
	for _, v := range slices.Backward(st.Versions) {
		if v.Model != nil {
			return v.Model.Config()
		}
		if v.Evicted {
			return st.Config
		}
	}
	return nil
}

// Failed reports whether the last load failed, as a whole or for a version that is in service.
func Failed(st lifecycle.ModelStatus) bool {
	return st.Err != nil || slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool {
		return v.State == lifecycle.Ready && v.Reason != ""
	})
}

// InService returns the versions in service, ascending.
func InService(st lifecycle.ModelStatus) (all []int64) {
	for _, v := range st.Versions {
		if v.State == lifecycle.Ready {
			all = append(all, v.Version)
		}
	}
	return all
}

// ReadyVersion returns a version that is loaded: the wanted one, or the newest for "".
func (m *Model) ReadyVersion(version string) (lifecycle.VersionStatus, error) {
	for _, v := range slices.Backward(m.Status.Versions) {
		if v.Model != nil && (version == "" || version == strconv.FormatInt(v.Version, 10)) {
			return v, nil
		}
	}
	if version != "" {
		return lifecycle.VersionStatus{}, rest.Errorf(api.CodeUnavailable, "version %s of model %q is not ready",
			rest.Quote(version), m.Name)
	}
	return lifecycle.VersionStatus{}, rest.Errorf(api.CodeUnavailable, "model %q is not ready; load it first", m.Name)
}

// Versions returns the versions that the engine knows or that are in the folder.
func (m *Model) Versions() []int64 {
	_, name := repo.Split(m.Name)
	all := repo.ScanModel(m.Repository, name, "").Numbers()
	for _, v := range m.Status.Versions {
		all = append(all, v.Version)
	}
	return all
}

// OtherVersions returns the version folders that the engine does not know.
func (m *Model) OtherVersions() (out []string) {
	_, name := repo.Split(m.Name)
	for _, n := range repo.ScanModel(m.Repository, name, "").Numbers() {
		if !slices.ContainsFunc(m.Status.Versions, func(v lifecycle.VersionStatus) bool { return v.Version == n }) {
			out = append(out, strconv.FormatInt(n, 10))
		}
	}
	return out
}

// Labels reads a label file of the model; nil if it cannot be read, which the load reports.
func (m *Model) Labels(file string) []string {
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	b, err := root.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return nil
	}
	text := strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// OutputLabels returns the labels of each output of cfg that has a label file. cfg may be nil.
func (m *Model) OutputLabels(cfg *inferencepb.ModelConfig) map[string]api.List[string] {
	labels := map[string]api.List[string]{}
	for _, out := range cfg.GetOutput() {
		if file := out.GetLabelFilename(); file != "" && m.Folder != "" {
			labels[out.GetName()] = m.Labels(file)
		}
	}
	return labels
}

// Provenance returns where a model came from. It returns nil if the folder has no file provenance.json that says so.
func (m *Model) Provenance() *api.Provenance {
	root, err := os.OpenRoot(m.Folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	f, err := root.Open("provenance.json")
	if err != nil {
		return nil
	}
	defer f.Close()
	var out api.Provenance
	if json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&out) != nil || out.From == "" {
		return nil
	}
	return &out
}
