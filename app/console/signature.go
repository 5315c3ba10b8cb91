package console

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

const maxSignatures = 64

// signatures remembers what backends read from model files, so that checking a text while it is typed does not open a
// large file each time.
type signatures struct {
	mu    sync.Mutex
	known []signature // guarded by mu; the latest used last
}

type signature struct {
	folder, backend, file string
	print                 repo.Print // of the version folder when it was read
	sig                   *modelconfig.Signature
}

// signature asks the backend of a configuration what the newest version's file has. nil without an error: the backend
// cannot tell, or there is no version. The caller must not change it.
func (c *Console) signature(ctx context.Context, name, folder string, cfg *inferencepb.ModelConfig) (sig *modelconfig.Signature, version int64, err error) {
	ac, can := c.backend(cfg.GetBackend()).(backend.AutoCompleter)
	if !can || folder == "" {
		return nil, 0, nil
	}
	src := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "")
	versions := modelconfig.ChooseVersions(cfg.GetVersionPolicy(), src.Numbers())
	if len(versions) == 0 {
		return nil, 0, nil
	}
	version = slices.Max(versions)
	at := signature{folder: filepath.Join(folder, strconv.FormatInt(version, 10)), backend: cfg.GetBackend(),
		file: cfg.GetDefaultModelFilename(), print: src.Versions[version]}
	if sig, ok := c.sigs.get(at); ok {
		return sig, version, nil
	}
	at.sig, err = ac.Signature(ctx, backend.Spec{ModelName: name, Version: version, Config: cfg, ModelFolder: folder,
		VersionFolder: at.folder, Log: c.log})
	if err != nil {
		return nil, version, err
	}
	c.sigs.put(at)
	return at.sig, version, nil
}

func (s signature) same(o signature) bool {
	return s.folder == o.folder && s.backend == o.backend && s.file == o.file
}

func (s *signatures) get(at signature) (*modelconfig.Signature, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.known, at.same)
	if i < 0 || s.known[i].print != at.print {
		return nil, false
	}
	found := s.known[i]
	s.known = append(slices.Delete(s.known, i, i+1), found)
	return found.sig, true
}

func (s *signatures) put(at signature) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = append(slices.DeleteFunc(s.known, at.same), at)
	if len(s.known) > maxSignatures {
		s.known = slices.Delete(s.known, 0, 1)
	}
}
