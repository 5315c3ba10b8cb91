package configs

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/code"
	"nereid/app/console/rest"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/store"
)

// Handler serves the routes about configurations and their revisions.
type Handler struct {
	Checker *Checker
	Writer  *Writer
	// Staged returns the model name and the folder of a staged import.
	Staged func(id string) (name, folder string, err error)
}

var configFields = sync.OnceValue(describeFields)

// Fields describes the fields of a configuration.
func (h *Handler) Fields(*http.Request) (api.ConfigFields, error) { return *configFields(), nil }

// Check checks a text for a model or a staged import without saving it.
func (h *Handler) Check(r *http.Request, req *api.CheckRequest) (out api.CheckResult, err error) {
	name, folder := req.Model, ""
	file := modelconfig.SeverityWarning // such a text can be saved; the reload reports the fault
	switch {
	case req.Import != "":
		file = modelconfig.SeverityError
		if name, folder, err = h.Staged(req.Import); err != nil {
			return out, err
		}
	case req.Model != "":
		m, err := h.Writer.Catalog.Find(req.Model)
		if err != nil {
			return out, err
		}
		folder = m.Folder
	}
	d := h.Checker.Check(r.Context(), name, folder, &req.Text)
	out = api.CheckResult{Faults: APIFaults(d.Faults(file), req.Text, name), Groups: instanceGroups(req.Text)}
	if len(d.faults.Errors()) == 0 && d.Config != nil {
		out.Completed = modelconfig.Format(d.Config)
	}
	return out, nil
}

// instanceGroups returns the instance groups of a text, none if the text cannot be read.
func instanceGroups(text string) (out []api.InstanceGroup) {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
	if cfg == nil || len(faults.Errors()) > 0 {
		return nil
	}
	for _, g := range cfg.GetInstanceGroup() {
		v := api.InstanceGroup{
			Name: g.GetName(), Kind: g.GetKind().String(), Count: int(g.GetCount()), HostPolicy: g.GetHostPolicy(),
			Passive: g.GetPassive(), Other: g.GetRateLimiter() != nil ||
				len(g.GetProfile())+len(g.GetSecondaryDevices()) > 0,
		}
		for _, id := range g.GetGpus() {
			v.GPUs = append(v.GPUs, int(id))
		}
		out = append(out, v)
	}
	return out
}

// Save saves a configuration and reloads the model. It does not write a text with faults.
func (h *Handler) Save(r *http.Request, req *api.SaveConfig) (out api.SaveResult, err error) {
	name := r.PathValue("name")
	defer h.Writer.Catalog.Lock(name)()
	m, err := h.Writer.editable(r.Context(), name, req.BaseRevision)
	if err != nil {
		return out, err
	}
	if is := *cmp.Or(m.Text, new("")); req.BaseText != nil && *req.BaseText != is && utf8.ValidString(is) {
		return out, rest.Errorf(api.CodeConflict,
			"the configuration file of %q was changed meanwhile; look at the new text, then save again", name)
	}
	d := h.Checker.Check(r.Context(), name, m.Folder, &req.Text)
	if errs := d.faults.Errors(); len(errs) > 0 {
		return out, &rest.Error{
			Code:   api.CodeInvalid,
			Text:   "the configuration has faults and was not saved: " + errs.Error(),
			Faults: APIFaults(d.faults, req.Text, name),
		}
	}
	if err := consent(m, &req.Text, req.ConsentCode); err != nil {
		return out, err
	}
	rev := store.Revision{Source: store.SourceConsole, After: &req.Text}
	if req.OnlyIfLoads {
		return h.Writer.SaveIfLoads(r.Context(), m, rev)
	}
	return h.Writer.Save(r.Context(), m, rev)
}

// Revisions lists revisions of a model, the latest first, in pages.
func (h *Handler) Revisions(r *http.Request) (out api.Revisions, err error) {
	name, q := r.PathValue("name"), r.URL.Query()
	before, err := rest.Number(q, "before", 0, 0, math.MaxInt64)
	if err != nil {
		return out, err
	}
	limit, err := rest.Number(q, "limit", 100, 1, 999)
	if err != nil {
		return out, err
	}
	defer h.Writer.Catalog.Lock(name)()
	m, err := h.Writer.Catalog.Find(name)
	if err != nil {
		return out, err
	}
	if _, err := h.Writer.Sync(r.Context(), m); err != nil {
		return out, err
	}
	list, err := h.Writer.Store.Revisions(r.Context(), name, before, int(limit)+1)
	if out.More = len(list) > int(limit); out.More {
		list = list[:limit]
	}
	for _, rev := range list {
		out.Revisions = append(out.Revisions, apiRevision(rev))
	}
	return out, err
}

// find returns the revision that a path names, if it is of that path's model.
func (h *Handler) find(r *http.Request) (store.Revision, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return store.Revision{}, rest.Errorf(api.CodeNotFound, "%s is not the number of a revision",
			rest.Quote(r.PathValue("id")))
	}
	rev, err := h.Writer.Store.Revision(r.Context(), id)
	if err == nil && rev.Model != r.PathValue("name") {
		err = rest.Errorf(api.CodeNotFound, "revision %d is of another model", id)
	}
	return rev, err
}

// Revision returns one revision with its texts.
func (h *Handler) Revision(r *http.Request) (out api.RevisionFull, err error) {
	rev, err := h.find(r)
	if err != nil {
		return out, err
	}
	out.Revision = apiRevision(rev)
	if rev.Before != nil {
		out.Before = *rev.Before
	}
	if rev.After != nil {
		out.After = *rev.After
	}
	return out, nil
}

// Restore restores the text of a revision. The text is not checked: an earlier text may be restored with its faults.
func (h *Handler) Restore(r *http.Request, req *api.RestoreRequest) (out api.SaveResult, err error) {
	rev, err := h.find(r)
	if err != nil {
		return out, err
	}
	defer h.Writer.Catalog.Lock(rev.Model)()
	text := rev.After
	if req.Before {
		text = rev.Before
	}
	if rev.Source == store.SourceVersions || rev.Source == store.SourceOverride {
		return h.Writer.restoreService(r.Context(), rev, text)
	}
	m, err := h.Writer.editable(r.Context(), rev.Model, req.BaseRevision)
	if err != nil {
		return out, err
	}
	if err := consent(m, text, req.ConsentCode); err != nil {
		return out, err
	}
	return h.Writer.Save(r.Context(), m, store.Revision{Source: store.SourceRestore, Restores: rev.ID, After: text})
}

// consent refuses a text that makes the server run what the present text does not, unless the user agreed. The files
// of an import that ran nothing were not asked about.
func consent(m catalog.Model, text *string, agreed bool) error {
	_, name := repo.Split(m.Name)
	runs, err := code.Added(m.Folder, name, m.Text, text)
	if err == nil && len(runs) > 0 && !agreed {
		err = code.Ask(runs)
	}
	return err
}
