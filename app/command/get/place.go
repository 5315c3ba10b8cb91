package get

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/app/console/code"
	"nereid/app/console/folders"
	"nereid/app/console/models"
	"nereid/app/durable"
	"nereid/app/options"
	"nereid/engine/repo"
)

// provenance says where a model came from. It is the model's file provenance.json.
type provenance struct {
	Model    string `json:"model"`
	Source   string `json:"source"`             // as the user gave it
	From     string `json:"from"`               // the URL or the package's file
	File     string `json:"file,omitempty"`     // in the package
	Revision string `json:"revision,omitempty"` // the hub's commit, or the digest of the registry's manifest
	License  string `json:"license,omitempty"`  // as the source names it
	SHA256   string `json:"sha256,omitempty"`   // of what was downloaded
	Bytes    int64  `json:"bytes"`
	Fetched  string `json:"fetched"` // RFC 3339, UTC
}

// staged is a model folder that is ready to be put into the repository.
type staged struct {
	dir   string
	notes []string // what the user should know
	provenance
}

// check refuses what needs the user's consent, before anything is in the repository.
func (o *getter) check(s *staged) error {
	config, err := os.ReadFile(filepath.Join(s.dir, repo.ConfigName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	runs, err := code.Find(s.dir, s.Model, string(config))
	if err != nil {
		return err
	}
	if len(runs) > 0 && !o.allowCode {
		return errors.New(code.Refusal(runs, "agree with --allow-code"))
	}
	if _, err := os.Lstat(filepath.Join(o.repository, s.Model)); err == nil && !o.replace {
		return fmt.Errorf("a model %s is in %s already; choose another --name, or --replace it", s.Model, o.repository)
	}
	return nil
}

// place moves a model folder into the repository, in one step. A model that it replaces goes to the trash.
func (o *getter) place(s *staged) error {
	s.Fetched = time.Now().UTC().Format(time.RFC3339)
	b, err := json.MarshalIndent(s.provenance, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(s.dir, "provenance.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if err := errors.Join(addExample(s.Source, s.dir), readable(s.dir)); err != nil {
		return err
	}
	if err := durable.SyncTree(s.dir); err != nil {
		return err
	}
	to := filepath.Join(o.repository, s.Model)
	err = folders.Place(s.dir, to)
	if errors.Is(err, fs.ErrExist) && o.replace {
		err = o.exchange(s, to)
	}
	if err != nil {
		return err
	}
	return durable.SyncFolder(o.repository)
}

// exchange puts a model folder in the place of another one, and that one into the trash. After an error, the old model
// is in its place. After a crash it is there, or in a folder that the next start of a server moves to the trash.
func (o *getter) exchange(s *staged, to string) error {
	data, err := options.CommandDataDir(o.dataDir, o.env.Lookup)
	if err != nil {
		return err
	}
	trash := &models.Trash{Dir: filepath.Join(data, "trash")}
	aside := folders.Hidden(o.repository)
	if err := os.Rename(s.dir, aside); err != nil {
		return err
	}
	if err := folders.Exchange(aside, to); err != nil {
		return errors.Join(err, os.RemoveAll(aside))
	}
	if _, err = trash.Put(s.Model, aside, to); err == nil {
		return nil
	}
	err = fmt.Errorf("the old model cannot be moved to the trash of %s, and stays: %w; --data-dir names another "+
		"data folder", data, err)
	if undo := folders.Exchange(aside, to); undo != nil {
		return errors.Join(err, undo)
	}
	return errors.Join(err, os.RemoveAll(aside))
}

// readable lets other users read a folder, as models in a repository usually are.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o644)
		if err == nil && d.IsDir() {
			mode = 0o755
		}
		return errors.Join(err, os.Chmod(path, mode))
	})
}

func (o *getter) report(s *staged) error {
	for _, note := range s.notes {
		fmt.Fprintf(o.env.Stderr, "%s: %s\n", s.Model, note)
	}
	if o.asJSON {
		return json.NewEncoder(o.env.Stdout).Encode(&s.provenance)
	}
	from := slices.DeleteFunc([]string{s.From, s.File, s.Revision}, func(s string) bool { return s == "" })
	sum := ""
	if s.SHA256 != "" {
		sum = ", SHA-256 " + s.SHA256
	}
	_, err := fmt.Fprintf(o.env.Stdout, "%s is in %s\n  from %s\n  %d bytes%s\n", s.Model, o.repository,
		strings.Join(from, ", "), s.Bytes, sum)
	return err
}
