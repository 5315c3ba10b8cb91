package console

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"nereid/app/console/api"
	"nereid/app/durable"
	"nereid/app/history"
	"nereid/engine"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

func (c *Console) getConfigFields(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Cache-Control", "max-age=3600")
	return reply(w, c.fields())
}

func (c *Console) postConfigCheck(w http.ResponseWriter, r *http.Request) error {
	var req api.CheckRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	name, folder := req.Model, ""
	switch {
	case req.Import != "":
		s, err := c.imports.get(req.Import)
		if err != nil {
			return err
		}
		name, folder = s.target()
	case req.Model != "":
		_, p, err := c.locate(req.Model)
		if err != nil {
			return err
		}
		folder = p.folder
	}
	d := c.draft(r.Context(), name, folder, &req.Text)
	file := modelconfig.SeverityWarning // the text can be saved all the same; the reload says what comes of it
	if req.Import != "" {
		file = modelconfig.SeverityError
	}
	out := api.CheckResult{Faults: apiFaults(d.withFile(file), req.Text, name), Groups: instanceGroups(req.Text)}
	if len(d.faults.Errors()) == 0 && d.cfg != nil {
		out.Completed = modelconfig.Format(d.cfg)
	}
	return reply(w, out)
}

// instanceGroups are those of a text; none of one that cannot be read.
func instanceGroups(text string) (out []api.InstanceGroup) {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	if cfg == nil || len(faults.Errors()) > 0 {
		return nil
	}
	for _, g := range cfg.GetInstanceGroup() {
		v := api.InstanceGroup{Name: g.GetName(), Kind: g.GetKind().String(), Count: int(g.GetCount()), HostPolicy: g.GetHostPolicy(),
			Passive: g.GetPassive(), Other: g.GetRateLimiter() != nil || len(g.GetProfile())+len(g.GetSecondaryDevices()) > 0}
		for _, id := range g.GetGpus() {
			v.GPUs = append(v.GPUs, int(id))
		}
		out = append(out, v)
	}
	return out
}

// putConfig saves a configuration and reloads the model. A text with faults is not written.
func (c *Console) putConfig(w http.ResponseWriter, r *http.Request) error {
	var req api.SaveConfig
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	st, p, err := c.editable(r.Context(), name, req.BaseRevision)
	if err != nil {
		return err
	}
	d := c.draft(r.Context(), name, p.folder, &req.Text)
	if errs := d.faults.Errors(); len(errs) > 0 {
		return &apiError{code: api.CodeInvalid, text: "the configuration has faults and was not saved: " + errs.Error(),
			faults: apiFaults(d.faults, req.Text, name)}
	}
	return c.save(w, r, st, p, store.Revision{Model: name, Source: "console", Before: p.text, After: &req.Text})
}

// editable finds a model whose configuration is to be changed, and refuses if it changed since the edit began.
func (c *Console) editable(ctx context.Context, name string, base int64) (st lifecycle.ModelStatus, p place, err error) {
	if st, p, err = c.locate(name); err != nil {
		return st, p, err
	}
	if err := changeable(name, p); err != nil {
		return st, p, err
	}
	head, err := c.syncRevision(ctx, name, p)
	if err != nil {
		return st, p, err
	}
	if head.ID != base {
		return st, p, fail(api.CodeConflict, "the configuration of %q was changed meanwhile (it is at revision %d, the edit began from %d); "+
			"look at the new text, then save again", name, head.ID, base)
	}
	return st, p, nil
}

// changeable answers why a model's configuration cannot be changed here, nil if it can.
func changeable(name string, p place) error {
	switch {
	case p.folder == "":
		return fail(api.CodeNotFound, "model %q has no folder in a repository", name)
	case p.copied:
		return fail(api.CodeForbidden, "model %q is in %s, which this server only reads; change it there", name, p.repository)
	case !p.writable():
		return fail(api.CodeForbidden, "%s cannot be written by this server", p.folder)
	}
	return nil
}

// syncRevision answers the newest revision of a model's configuration. When the file is not what that revision left, it
// was changed outside: then a revision that says so is stored first. A model without revisions answers a zero one.
func (c *Console) syncRevision(ctx context.Context, name string, p place) (store.Revision, error) {
	last, err := c.o.Store.FileRevision(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return store.Revision{}, nil
	}
	if err != nil {
		return store.Revision{}, err
	}
	if p.folder == "" || equalText(last.After, p.text) {
		return last, nil
	}
	return c.o.Store.AddRevision(ctx, store.Revision{Model: name, Source: "disk", Before: last.After, After: p.text, Outcome: string(api.SaveSaved)})
}

func equalText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// save stores a revision, then replaces the file, then reloads the model if it is meant to run. The order makes that
// no text is ever lost: a crash in between leaves the old file and a revision with both texts.
func (c *Console) save(w http.ResponseWriter, r *http.Request, st lifecycle.ModelStatus, p place, rev store.Revision) error {
	out, err := c.saveConfig(r.Context(), st, p, rev)
	if err != nil {
		return err
	}
	return reply(w, out)
}

func (c *Console) saveConfig(ctx context.Context, st lifecycle.ModelStatus, p place, rev store.Revision) (api.SaveResult, error) {
	ctx = context.WithoutCancel(ctx) // a closed page must not stop it half way
	rev, err := c.o.Store.AddRevision(ctx, rev)
	if err != nil {
		return api.SaveResult{}, err
	}
	if err := writeConfig(p.config, rev.After); err != nil {
		c.outcome(ctx, &rev, api.SaveFailed, "the file was not written: "+err.Error())
		return api.SaveResult{}, err
	}
	out := api.SaveResult{Outcome: api.SaveSaved}
	if c.wanted(st) {
		start := time.Now()
		loadErr := c.o.Engine.Reload(ctx, st.Name)
		out.LoadMs = ms(time.Since(start))
		out.Outcome = api.SaveLoaded
		if loadErr != nil {
			out.Outcome, out.Reason = api.SaveFailed, strings.TrimSpace(loadErr.Error())
			now, _ := c.o.Engine.Model(st.Name)
			out.KeepsServing = runningConfig(now) != nil
		}
	}
	c.outcome(ctx, &rev, out.Outcome, out.Reason)
	e := history.Event{Kind: history.ConfigSaved, Model: st.Name, Text: "configuration saved", Detail: history.Detail{Revision: rev.ID, DurationMs: out.LoadMs}}
	if rev.Source == SourceTune {
		e.Text = "configuration of a tuning saved"
	}
	if rev.Restores != 0 {
		e.Kind, e.Text = history.ConfigRestored, "configuration of revision "+strconv.FormatInt(rev.Restores, 10)+" restored"
	}
	if out.Reason != "" {
		e.Text += "; it does not load: " + out.Reason
	}
	c.o.Recorder.Event(e)
	c.ModelsChanged()
	out.Revision = apiRevision(rev)
	return out, nil
}

// wanted says whether a model is meant to be in service: not one that was unloaded on purpose.
func (c *Console) wanted(st lifecycle.ModelStatus) bool {
	for _, v := range st.Versions {
		if v.State != lifecycle.Unavailable || v.Reason != "unloaded" {
			return true
		}
	}
	return st.Err != nil || len(st.Versions) == 0 && c.o.Engine.Mode() != engine.ModeExplicit
}

func (c *Console) outcome(ctx context.Context, rev *store.Revision, o api.SaveOutcome, reason string) {
	rev.Outcome, rev.Reason = string(o), reason
	if err := c.o.Store.SetRevisionOutcome(ctx, rev.ID, rev.Outcome, rev.Reason); err != nil {
		c.log.Warn("the outcome of a configuration change is not stored", "model", rev.Model, "revision", rev.ID, "err", err)
	}
}

// writeConfig replaces config.pbtxt, or removes it for nil.
func writeConfig(path string, text *string) error {
	if text == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return durable.Replace(path, []byte(*text), 0o644)
}

func (c *Console) getRevisions(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	unlock := c.locks.lock(name)
	defer unlock()
	_, p, err := c.locate(name)
	if err != nil {
		return err
	}
	if _, err := c.syncRevision(r.Context(), name, p); err != nil {
		return err
	}
	list, err := c.o.Store.Revisions(r.Context(), name, 0, 1000)
	if err != nil {
		return err
	}
	var out api.Revisions
	for _, rev := range list {
		out.Revisions = append(out.Revisions, apiRevision(rev))
	}
	return reply(w, out)
}

// revision answers the revision that a path names, if it is of that path's model.
func (c *Console) revision(r *http.Request) (store.Revision, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return store.Revision{}, fail(api.CodeNotFound, "%s is not the number of a revision", quote(r.PathValue("id")))
	}
	rev, err := c.o.Store.Revision(r.Context(), id)
	if err == nil && rev.Model != r.PathValue("name") {
		err = fail(api.CodeNotFound, "revision %d is of another model", id)
	}
	return rev, err
}

func (c *Console) getRevision(w http.ResponseWriter, r *http.Request) error {
	rev, err := c.revision(r)
	if err != nil {
		return err
	}
	out := api.RevisionFull{Revision: apiRevision(rev)}
	if rev.Before != nil {
		out.Before = *rev.Before
	}
	if rev.After != nil {
		out.After = *rev.After
	}
	return reply(w, out)
}

// postRestore brings a text back. It is not checked first: what was there before may be had back, right or wrong.
func (c *Console) postRestore(w http.ResponseWriter, r *http.Request) error {
	var req api.RestoreRequest
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	rev, err := c.revision(r)
	if err != nil {
		return err
	}
	unlock := c.locks.lock(rev.Model)
	defer unlock()
	text := rev.After
	if req.Before {
		text = rev.Before
	}
	if rev.Source == store.SourceVersions || rev.Source == store.SourceOverride {
		return c.restoreService(w, r, rev, text)
	}
	st, p, err := c.editable(r.Context(), rev.Model, req.BaseRevision)
	if err != nil {
		return err
	}
	return c.save(w, r, st, p, store.Revision{Model: rev.Model, Source: "restore", Restores: rev.ID, Before: p.text, After: text})
}

func apiRevision(r store.Revision) api.Revision {
	out := api.Revision{ID: r.ID, Model: r.Model, TMs: r.TimeUS / 1000, Source: r.Source, Restores: r.Restores,
		Outcome: api.SaveOutcome(r.Outcome), Reason: r.Reason}
	if out.Outcome == "" { // the process ended before it was known
		out.Outcome = api.SaveSaved
	}
	out.Added, out.Removed = countLines(r.Before, r.After)
	return out
}

// countLines counts the lines that a change adds and removes, as a diff would show them.
func countLines(before, after *string) (added, removed int) {
	a, b := lines(before), lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	const most = 4 << 20 // of the table below
	if len(a)*len(b) > most {
		return len(b), len(a)
	}
	// The longest common subsequence, one row of the table at a time.
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	same := row[len(b)]
	return len(b) - same, len(a) - same
}

func lines(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(*text, "\n"), "\n")
}
