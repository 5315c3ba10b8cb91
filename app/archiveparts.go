package app

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

// part is a model folder of an archive, and what it is served as.
type part struct {
	name   string // as served
	folder string
	load   engine.LoadParameters
}

// partSeparator is between the name of an archive's model and that of a model of its steps: no archive's name has it, so that
// the steps of two archives do not meet.
const partSeparator = ":"

// archiveParts returns the models of an archive in the order in which they are loaded, under the archive's name: the one model
// that there is, or an ensemble as the last after the models of its steps, whose names get the archive's in front. Errors:
// InvalidArg for what cannot be read, Unsupported for several models of which none is the ensemble of the others.
func archiveParts(name, root string) ([]part, error) {
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
		return nil, status.Errorf(status.Unsupported, "the archive in '%s' has %d model folders, and %w", root, len(configs), err)
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
			return nil, status.Errorf(status.InvalidArg, "the ensembles of the archive in '%s' run each other in a circle", root)
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

// configOf reads a model folder's configuration, nil if there is none.
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

// topOf finds the ensemble that no other of an archive runs.
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
		return "", status.Errorf(status.Unsupported, "one must be the ensemble of the others; ensembles that no other runs: %q", tops)
	}
	return tops[0], nil
}

// ready reports whether the models of a folder's steps are done, as far as they are in the archive.
func ready(configs map[string]*inferencepb.ModelConfig, folder string, done map[string]bool) bool {
	for _, s := range configs[folder].GetEnsembleScheduling().GetStep() {
		if _, here := configs[s.GetModelName()]; here && !done[s.GetModelName()] {
			return false
		}
	}
	return true
}

// renamed is a folder's configuration with the names under which the archive is served, nil if there is none to change.
func renamed(configs map[string]*inferencepb.ModelConfig, folder string, served func(string) string) *inferencepb.ModelConfig {
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
