package tunecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"nereid/app/durable"
	"nereid/store"
)

// applyBest writes the best configuration into the repository. It keeps the one before as a revision first.
func (o *options) applyBest(r *result, stdout io.Writer) error {
	best, ok := r.best()
	switch {
	case r.cancelled:
		return errors.New("--apply: the search was interrupted; nothing is changed")
	case !ok:
		return errors.New("--apply: no configuration keeps the constraints; nothing is changed")
	case r.space.IsPresent(best.Candidate):
		fmt.Fprintln(stdout, "The present configuration stays.")
		return nil
	}
	dir, err := o.program.DataDir(o.dataDir)
	if err != nil {
		return fmt.Errorf("--apply: %w", err)
	}
	for _, m := range r.models {
		if len(changesOf(r.space.Changes(best.Candidate), m.name)) == 0 {
			continue
		}
		text, err := r.configOf(&m, best.Candidate)
		if err != nil {
			return err
		}
		if err := o.applyConfig(dir, &m, text); err != nil {
			return fmt.Errorf("--apply: %w", err)
		}
		fmt.Fprintf(stdout, "Wrote %s; the configuration before is a revision of model %s. "+
			"A server that polls the repository loads it by itself.\n", m.configPath(), m.name)
	}
	return nil
}

// applyConfig replaces a model's configuration, which must still be the one that was measured.
func (o *options) applyConfig(dataDir string, m *modelFolder, text string) error {
	path := m.configPath()
	rev := store.Revision{Model: m.name, Source: store.SourceTune, After: &text, Outcome: "saved"}
	switch b, err := os.ReadFile(path); {
	case err == nil:
		before := string(b)
		rev.Before = &before
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if was := rev.Before; was == nil && m.config != "" || was != nil && *was != m.config {
		return fmt.Errorf("%s was changed while it was tuned; nothing is changed", path)
	}
	if err := o.program.AddRevision(dataDir, rev); err != nil {
		return fmt.Errorf("the configuration is not changed, because it cannot be kept as a revision: %w", err)
	}
	return durable.Replace(path, []byte(text), 0o644)
}
