package configs

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"

	"nereid/app/console/code"
	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

const maxSignatures = 64 // that are remembered

// signatureKey names a model file as it was when a backend read it.
type signatureKey struct {
	folder, backend, file string
	fingerprint           repo.Fingerprint // of the version folder
}

// signature asks the backend of a configuration for the signature of the newest version's file. It returns nil without
// an error if the backend cannot tell, if there is no version, or if reading the file would run code. The caller must
// not change the signature.
func (c *Checker) signature(ctx context.Context, name, folder string, cfg *inferencepb.ModelConfig) (
	sig *modelconfig.Signature, version int64, err error) {
	completer, ok := c.backend(cfg.GetBackend()).(backend.AutoCompleter)
	if !ok || folder == "" {
		return nil, 0, nil
	}
	if code.OpensFiles(cfg) {
		return nil, 0, nil // reading the file would open them, before anybody agreed to that
	}
	src := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "")
	versions := modelconfig.ChooseVersions(cfg.GetVersionPolicy(), src.Numbers())
	if len(versions) == 0 {
		return nil, 0, nil
	}
	version = slices.Max(versions)
	key := signatureKey{folder: filepath.Join(folder, strconv.FormatInt(version, 10)), backend: cfg.GetBackend(),
		file: cfg.GetDefaultModelFilename(), fingerprint: src.Versions[version]}
	c.mu.Lock()
	sig, ok = c.signatures[key]
	c.mu.Unlock()
	if ok {
		return sig, version, nil
	}
	sig, err = completer.Signature(ctx, backend.Spec{ModelName: name, Version: version, Config: cfg,
		ModelFolder: folder, VersionFolder: key.folder, Log: c.Log})
	if err != nil {
		return nil, version, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signatures == nil || len(c.signatures) >= maxSignatures {
		c.signatures = map[signatureKey]*modelconfig.Signature{}
	}
	c.signatures[key] = sig
	return sig, version, nil
}
