package configs

import (
	"context"

	"nereid/app/console/api"
	"nereid/store"
)

// Settle finishes the changes of configurations during which an earlier process ended, before any model is loaded. The
// file tells whether the change was made. A change that was to stay only if the model loads is undone. Faults are
// logged.
func (w *Writer) Settle(ctx context.Context) {
	list, err := w.Store.UnknownOutcomes(ctx)
	if err != nil {
		w.Log.Warn("it is not known which changes of configurations a crash cut short", "err", err)
	}
	for _, rev := range list {
		if err := w.settle(ctx, rev); err != nil {
			w.Log.Warn("what became of a change of a configuration is not known", "model", rev.Model,
				"revision", rev.ID, "err", err)
		}
	}
}

func (w *Writer) settle(ctx context.Context, rev store.Revision) error {
	defer w.Catalog.Lock(rev.Model)()
	m, err := w.Catalog.Find(rev.Model)
	if err != nil {
		return err
	}
	if !equalText(rev.After, m.Text) {
		_, err := w.Sync(ctx, m)
		return err
	}
	if rev.Reason != OnlyIfLoads {
		w.SetOutcome(ctx, &rev, api.SaveSaved, "")
		return nil
	}
	if err := writeFile(m.ConfigPath, rev.Before); err != nil {
		return err
	}
	w.Log.Warn("the server ended before a model had loaded with a new configuration: the one before is back",
		"model", rev.Model, "revision", rev.ID)
	w.SetOutcome(ctx, &rev, api.SaveFailed, "the server ended before the model had loaded")
	w.Note(ctx, store.Revision{Model: rev.Model, Source: store.SourceRestore, Restores: rev.ID, Before: rev.After,
		After: rev.Before})
	return nil
}
