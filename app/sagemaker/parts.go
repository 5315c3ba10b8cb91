package sagemaker

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// part is a model folder of an archive.
type part struct {
	name   string // under which it is served
	folder string
	load   engine.LoadParameters
}

// partSeparator stands between the name of an archive and that of a model in it. Names of archives do not contain it,
// so the models of two archives have different names.
const partSeparator = ":"

// modelsOf returns the models of an archive in the order in which they must be loaded. Either there is one, served
// under the archive's name. Or the last one is an ensemble with the archive's name, after the models of its steps,
// whose names get the archive's name as a prefix. The error is InvalidArg for what cannot be read, and Unsupported for
// several models without an ensemble of the others.
func modelsOf(name, root string) ([]part, error) {
	if _, err := os.Stat(filepath.Join(root, "config.pbtxt")); err == nil {
		return onePart(name, root)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the archive's folder cannot be read: %w", err)
	}
	configs := map[string]*inferencepb.ModelConfig{}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			if configs[e.Name()], err = configOf(filepath.Join(root, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	if len(configs) == 1 {
		for folder := range configs {
			return onePart(name, filepath.Join(root, folder))
		}
	}
	top, err := topOf(configs)
	if err != nil {
		return nil, status.Errorf(status.Unsupported, "the archive in '%s' has %d model folders, and %w",
			root, len(configs), err)
	}
	served := func(folder string) string {
		if folder == top {
			return name
		}
		return name + partSeparator + folder
	}
	var all []part
	done := map[string]bool{}
	for len(all) < len(configs) {
		before := len(all)
		for _, folder := range slices.Sorted(maps.Keys(configs)) {
			if done[folder] || !ready(configs, folder, done) {
				continue
			}
			done[folder] = true
			p := part{name: served(folder), folder: filepath.Join(root, folder)}
			if cfg := renamed(configs, folder, served); cfg != nil {
				p.load.ConfigJSON = string(modelconfig.MarshalJSON(cfg))
			}
			all = append(all, p)
		}
		if len(all) == before {
			return nil, status.Errorf(status.InvalidArg, "the ensembles of the archive in '%s' run each other in a "+
				"cycle",
				root)
		}
	}
	return all, nil
}

func onePart(name, folder string) ([]part, error) {
	cfg, err := configOf(folder)
	if err != nil {
		return nil, err
	}
	p := part{name: name, folder: folder}
	if cfg.GetName() != "" && cfg.GetName() != name {
		cfg.Name = name
		p.load.ConfigJSON = string(modelconfig.MarshalJSON(cfg))
	}
	return []part{p}, nil
}

// configOf reads the configuration of a model folder. It returns nil if there is none.
func configOf(folder string) (*inferencepb.ModelConfig, error) {
	path := filepath.Join(folder, "config.pbtxt")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the model's configuration cannot be read: %w", err)
	}
	cfg, _, faults := modelconfig.Parse(path, text)
	return cfg, faults.Err()
}

// topOf finds the ensemble that is a step of no other.
func topOf(configs map[string]*inferencepb.ModelConfig) (string, error) {
	var tops []string
	for folder, cfg := range configs {
		if cfg.GetEnsembleScheduling() == nil {
			continue
		}
		used := false
		for _, other := range configs {
			used = used || slices.ContainsFunc(other.GetEnsembleScheduling().GetStep(),
				func(s *inferencepb.ModelEnsembling_Step) bool { return s.GetModelName() == folder })
		}
		if !used {
			tops = append(tops, folder)
		}
	}
	if len(tops) != 1 {
		slices.Sort(tops)
		return "", status.Errorf(status.Unsupported,
			"one must be the ensemble of the others; ensembles that no other runs: %q", tops)
	}
	return tops[0], nil
}

// ready reports whether all models of a folder's steps that are in the archive are done.
func ready(configs map[string]*inferencepb.ModelConfig, folder string, done map[string]bool) bool {
	for _, s := range configs[folder].GetEnsembleScheduling().GetStep() {
		if _, here := configs[s.GetModelName()]; here && !done[s.GetModelName()] {
			return false
		}
	}
	return true
}

// renamed returns the configuration of a folder with the names under which the models are served, nil if there is no
// name to change.
func renamed(
	configs map[string]*inferencepb.ModelConfig, folder string, served func(string) string,
) *inferencepb.ModelConfig {
	cfg := configs[folder]
	if cfg == nil || cfg.GetName() == "" && cfg.GetEnsembleScheduling() == nil {
		return nil
	}
	cfg.Name = served(folder)
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		if _, here := configs[s.GetModelName()]; here {
			s.ModelName = served(s.GetModelName())
		}
	}
	return cfg
}
