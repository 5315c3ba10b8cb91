package configs

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

// signatureCache remembers what backends read from model files. Without it, each check of a text that is being typed
// would read a large file.
type signatureCache struct {
	mu    sync.Mutex
	known []signature // guarded by mu; the latest used last
}

type signature struct {
	folder, backend, file string
	fingerprint           repo.Fingerprint // of the version folder when it was read
	sig                   *modelconfig.Signature
}

// signature asks the backend of a configuration for the signature of the newest version's file. It returns nil without
// an error if the backend cannot tell or there is no version. The caller must not change the signature.
func (c *Checker) signature(ctx context.Context, name, folder string, cfg *inferencepb.ModelConfig) (
	sig *modelconfig.Signature, version int64, err error) {
	completer, ok := c.backend(cfg.GetBackend()).(backend.AutoCompleter)
	if !ok || folder == "" {
		return nil, 0, nil
	}
	src := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "")
	versions := modelconfig.ChooseVersions(cfg.GetVersionPolicy(), src.Numbers())
	if len(versions) == 0 {
		return nil, 0, nil
	}
	version = slices.Max(versions)
	s := signature{folder: filepath.Join(folder, strconv.FormatInt(version, 10)), backend: cfg.GetBackend(),
		file: cfg.GetDefaultModelFilename(), fingerprint: src.Versions[version]}
	if sig, ok := c.signatures.get(s); ok {
		return sig, version, nil
	}
	s.sig, err = completer.Signature(ctx, backend.Spec{ModelName: name, Version: version, Config: cfg,
		ModelFolder: folder, VersionFolder: s.folder, Log: c.Log})
	if err != nil {
		return nil, version, err
	}
	c.signatures.put(s)
	return s.sig, version, nil
}

func (s signature) same(o signature) bool {
	return s.folder == o.folder && s.backend == o.backend && s.file == o.file
}

func (c *signatureCache) get(s signature) (*modelconfig.Signature, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.known, s.same)
	if i < 0 || c.known[i].fingerprint != s.fingerprint {
		return nil, false
	}
	found := c.known[i]
	c.known = append(slices.Delete(c.known, i, i+1), found)
	return found.sig, true
}

func (c *signatureCache) put(s signature) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = append(slices.DeleteFunc(c.known, s.same), s)
	if len(c.known) > maxSignatures {
		c.known = slices.Delete(c.known, 0, 1)
	}
}
