package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/code"
	"nereid/app/console/configs"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/console/rest"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// arrange makes a model folder of the received files and fills in what the user sees of it. Further models become
// imports of their own. s.mu is held.
func (h *Handler) arrange(ctx context.Context, s *staged) error {
	if len(s.view.More) > 0 {
		return rest.Errorf(api.CodeConflict, "the import had several models, and was divided already")
	}
	all, err := s.area.Arrange(s.view.Source)
	if err != nil {
		return err
	}
	stepsFirst(all)
	if err := h.divide(ctx, s, all[1:]); err != nil {
		return err
	}
	return h.describe(ctx, s, all[0])
}

// stepsFirst puts ensembles after other models, because their steps must be loaded before them.
func stepsFirst(all []staging.Layout) {
	ensemble := func(l staging.Layout) int {
		found, err := catalog.ReadConfig(filepath.Join(l.Dir, repo.ConfigName))
		if err != nil || found == nil {
			return 0
		}
		if cfg, _, _ := modelconfig.Parse(repo.ConfigName, []byte(*found)); cfg.GetEnsembleScheduling() == nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b staging.Layout) int { return cmp.Compare(ensemble(a), ensemble(b)) })
}

// divide makes imports of the further models of s. s.mu is held.
func (h *Handler) divide(ctx context.Context, s *staged, models []staging.Layout) (err error) {
	var ids []string
	defer func() {
		if err == nil {
			s.view.More = ids
			return
		}
		for _, id := range ids {
			err = errors.Join(err, h.drop(id))
		}
	}()
	for _, l := range models {
		one, err := h.add(s.view.Origin, s.view.Source)
		if err != nil {
			return err
		}
		ids = append(ids, one.view.ID)
		if l, err = one.area.Adopt(l); err != nil {
			return err
		}
		one.mu.Lock()
		one.view.Repository = s.view.Repository
		err = h.describe(ctx, one, l)
		one.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// describe fills in what the user sees of a model folder. s.mu is held.
func (h *Handler) describe(ctx context.Context, s *staged, l staging.Layout) error {
	found, err := catalog.ReadConfig(filepath.Join(l.Dir, repo.ConfigName))
	if err != nil {
		return err
	}
	s.dir = l.Dir
	v := &s.view
	v.State, v.Reason = api.ImportStaged, ""
	v.Kind, v.Files, v.Versions = l.Kind, l.Files, l.Versions
	if v.Name == "" {
		v.Name = freeName(v.Repository, l.Name)
		if author := staging.Author(l.Dir); author != "" {
			v.Name = author
		}
	}
	if !s.edited {
		v.ConfigGenerated = found == nil
		if found != nil {
			v.Config = modelconfig.SetName(*found, v.Name)
		} else {
			d := h.Checker.Check(ctx, v.Name, s.dir, nil)
			if useLabels(s.dir, l.Versions, d) {
				if v.Files, err = folders.List(s.dir); err != nil {
					return err
				}
			}
			v.Config = d.Generated()
		}
	}
	return h.check(ctx, s)
}

// freeName returns a free name instead of "model", such as model_2, since that says nothing about the model. Other
// names stay: a user who drops resnet.onnx again wants to replace it.
func freeName(repository, name string) string {
	free := name
	for n := 2; name == "model"; n++ {
		if _, err := os.Lstat(filepath.Join(repository, free)); err != nil {
			break
		}
		free = fmt.Sprintf("%s_%d", name, n)
	}
	return free
}

// check checks the import's configuration, and finds what runs with it. s.mu is held.
func (h *Handler) check(ctx context.Context, s *staged) error {
	v := &s.view
	runs, err := code.Find(s.dir, v.Name, v.Config)
	if err != nil {
		return err
	}
	v.Code = runs
	d := h.Checker.Check(ctx, v.Name, s.dir, &v.Config)
	// Nothing of the model serves yet, so a broken model file is an error.
	v.Faults = configs.APIFaults(d.Faults(modelconfig.SeverityError), v.Config, v.Name)
	v.Backend, v.MaxBatchSize = d.Config.GetBackend(), int(d.Config.GetMaxBatchSize())
	v.Inputs, v.Outputs = catalog.Tensors(d.Config, d.DimNames())
	_, err = os.Stat(filepath.Join(v.Repository, v.Name))
	v.Exists = err == nil
	return nil
}
