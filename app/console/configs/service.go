package configs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// restoreService restores what a revision says about a model in service: its versions, or the configuration of a load
// request. The engine's events store the new revision.
func (w *Writer) restoreService(ctx context.Context, rev store.Revision, text *string) (out api.SaveResult, err error) {
	m, err := w.Catalog.Find(rev.Model)
	if err != nil {
		return out, err
	}
	ctx = context.WithoutCancel(ctx)
	out = w.load(m.Name, func() error {
		if rev.Source == store.SourceVersions {
			return w.serveVersions(ctx, m.Status, lines(text))
		}
		if text == nil {
			text = new(string)
		}
		return w.serveConfig(ctx, m.Name, *text)
	})
	w.Catalog.Changed()
	latest, err := w.Store.Revisions(ctx, rev.Model, 0, 1)
	if err != nil {
		return out, err
	}
	out.Revision = apiRevision(latest[0])
	return out, nil
}

// serveVersions changes the versions in service to want. It loads before it unloads.
func (w *Writer) serveVersions(ctx context.Context, st lifecycle.ModelStatus, want []string) error {
	var errs []error
	for _, text := range want {
		n, ok := repo.ParseVersion(text)
		if !ok {
			return rest.Errorf(api.CodeInvalid, "%s is not the number of a version", rest.Quote(text))
		}
		errs = append(errs, w.Engine.ReloadVersion(ctx, st.Name, n))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, v := range st.Versions {
		if v.State == lifecycle.Ready && !slices.Contains(want, strconv.FormatInt(v.Version, 10)) {
			errs = append(errs, w.Engine.RemoveVersion(st.Name, v.Version))
		}
	}
	return errors.Join(errs...)
}

// serveConfig loads a model with a configuration text instead of its file.
func (w *Writer) serveConfig(ctx context.Context, name, text string) error {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	if err := faults.Err(); err != nil {
		return err
	}
	return w.Engine.ReloadWith(ctx, name, string(modelconfig.MarshalJSON(cfg)))
}

// VersionsRevision is the revision of a change of the versions in service.
func VersionsRevision(model string, before, after []int64) store.Revision {
	return store.Revision{
		Model: model, Source: store.SourceVersions, Before: versionLines(before), After: versionLines(after),
		Outcome: string(api.SaveLoaded),
	}
}

// OverrideRevision is the revision of a load request with a configuration. before and config are text or JSON.
func OverrideRevision(model, before, config string) store.Revision {
	return store.Revision{Model: model, Source: store.SourceOverride, Before: asText(before), After: asText(config),
		Outcome: string(api.SaveLoaded)}
}

func versionLines(all []int64) *string {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%d\n", v)
	}
	text := b.String()
	return &text
}

// asText returns a configuration as text, whether it is text or JSON.
func asText(config string) *string {
	if strings.HasPrefix(strings.TrimSpace(config), "{") {
		if cfg, _, faults := modelconfig.ParseJSON("config", []byte(config)); faults.Err() == nil {
			config = modelconfig.Format(cfg)
		}
	}
	return &config
}
