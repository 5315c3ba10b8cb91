package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// otherVersions are the version folders of a model that the engine does not know of.
func otherVersions(st lifecycle.ModelStatus, p place) (out []string) {
	_, name := repo.Split(st.Name)
	for _, n := range repo.ScanModel(p.repository, name, "").Numbers() {
		if !slices.ContainsFunc(st.Versions, func(v lifecycle.VersionStatus) bool { return v.Version == n }) {
			out = append(out, strconv.FormatInt(n, 10))
		}
	}
	return out
}

// oneVersion finds the model and the version that a path names.
func (c *Console) oneVersion(r *http.Request) (name string, version int64, err error) {
	name = r.PathValue("name")
	version, ok := repo.ParseVersion(r.PathValue("version"))
	if !ok {
		return name, 0, fail(api.CodeNotFound, "%s is not the number of a version", quote(r.PathValue("version")))
	}
	_, _, err = c.locate(name)
	return name, version, err
}

func (c *Console) postLoadVersion(w http.ResponseWriter, r *http.Request) error {
	name, version, err := c.oneVersion(r)
	if err != nil {
		return err
	}
	unlock := c.locks.lock(name)
	defer unlock()
	return c.loadResult(w, name, c.o.Engine.ReloadVersion(context.WithoutCancel(r.Context()), name, version))
}

func (c *Console) postUnloadVersion(w http.ResponseWriter, r *http.Request) error {
	name, version, err := c.oneVersion(r)
	if err != nil {
		return err
	}
	unlock := c.locks.lock(name)
	defer unlock()
	return c.loadResult(w, name, c.o.Engine.RemoveVersion(name, version))
}

// pinKey is the setting that keeps whether a model is pinned.
const pinKey = "pin:"

// Pins reads which models the page has pinned, or let go.
func Pins(ctx context.Context, s *store.Store) (map[string]bool, error) {
	all, err := s.Settings(ctx)
	if err != nil {
		return nil, err
	}
	pins := map[string]bool{}
	for key, value := range all {
		if name, ok := strings.CutPrefix(key, pinKey); ok {
			pins[name] = string(value) == "true"
		}
	}
	return pins, nil
}

func (c *Console) putPin(w http.ResponseWriter, r *http.Request) error {
	var req api.SetPin
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	name := r.PathValue("name")
	if _, _, err := c.locate(name); err != nil {
		return err
	}
	if err := c.o.Store.SetSetting(r.Context(), pinKey+name, []byte(strconv.FormatBool(req.Pinned))); err != nil {
		return err
	}
	c.o.Engine.Pin(name, &req.Pinned)
	c.ModelsChanged()
	st, p, err := c.locate(name)
	if err != nil {
		return err
	}
	return reply(w, c.view(st, p))
}

// restoreService brings back what a revision says of a model in service: its versions, or the configuration of a load
// request. The engine's events make the new revision. The model's lock is held.
func (c *Console) restoreService(w http.ResponseWriter, r *http.Request, rev store.Revision, text *string) error {
	st, _, err := c.locate(rev.Model)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	want := ""
	if text != nil {
		want = *text
	}
	start := time.Now()
	if rev.Source == store.SourceVersions {
		err = c.serveVersions(ctx, st, lines(&want))
	} else {
		err = c.serveConfig(ctx, st.Name, want)
	}
	out := api.SaveResult{Outcome: api.SaveLoaded, LoadMs: ms(time.Since(start))}
	if err != nil {
		now, _ := c.o.Engine.Model(rev.Model)
		out.Outcome, out.Reason, out.KeepsServing = api.SaveFailed, strings.TrimSpace(err.Error()), runningConfig(now) != nil
	}
	c.ModelsChanged()
	latest, err := c.o.Store.Revisions(ctx, rev.Model, 0, 1)
	if err != nil {
		return err
	}
	out.Revision = apiRevision(latest[0])
	return reply(w, out)
}

// serveVersions brings the versions in service to want: first those that come, then those that go.
func (c *Console) serveVersions(ctx context.Context, st lifecycle.ModelStatus, want []string) error {
	var errs []error
	for _, text := range want {
		n, ok := repo.ParseVersion(text)
		if !ok {
			return fail(api.CodeInvalid, "%s is not the number of a version", quote(text))
		}
		errs = append(errs, c.o.Engine.ReloadVersion(ctx, st.Name, n))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, v := range st.Versions {
		if v.State == lifecycle.Ready && !slices.Contains(want, strconv.FormatInt(v.Version, 10)) {
			errs = append(errs, c.o.Engine.RemoveVersion(st.Name, v.Version))
		}
	}
	return errors.Join(errs...)
}

// serveConfig loads a model with a configuration as text in the place of its file's.
func (c *Console) serveConfig(ctx context.Context, name, text string) error {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	if err := faults.Err(); err != nil {
		return err
	}
	return c.o.Engine.ReloadWith(ctx, name, string(modelconfig.MarshalJSON(cfg)))
}

// VersionsRevision is the revision of a change of the versions in service.
func VersionsRevision(model string, before, after []int64) store.Revision {
	return store.Revision{Model: model, Source: store.SourceVersions, Before: versionLines(before), After: versionLines(after), Outcome: string(api.SaveLoaded)}
}

// OverrideRevision is the revision of a load request that brought a configuration, JSON, in the place of before, which is
// text or JSON.
func OverrideRevision(model, before, config string) store.Revision {
	return store.Revision{Model: model, Source: store.SourceOverride, Before: asText(before), After: asText(config), Outcome: string(api.SaveLoaded)}
}

func versionLines(all []int64) *string {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%d\n", v)
	}
	text := b.String()
	return &text
}

// asText writes a configuration as text, whether it is that or JSON.
func asText(config string) *string {
	if strings.HasPrefix(strings.TrimSpace(config), "{") {
		if cfg, _, faults := modelconfig.ParseJSON("config", []byte(config)); faults.Err() == nil {
			config = modelconfig.Format(cfg)
		}
	}
	return &config
}
