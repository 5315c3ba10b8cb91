package models

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/lifecycle"
	"nereid/engine/repo"
	"nereid/engine/shadow"
)

// Shadow returns the candidate of a model, or the last one.
func (h *Handler) Shadow(r *http.Request) (out api.Shadow, err error) {
	if _, err := h.Catalog.Find(r.PathValue("name")); err != nil {
		return out, err
	}
	s, ok := h.Engine.Shadows().Status(r.PathValue("name"))
	if !ok {
		return out, nil
	}
	out = api.Shadow{
		Version: strconv.FormatInt(s.Version, 10), Served: strconv.FormatInt(s.Served, 10),
		SinceMs: s.Since.UnixMilli(), Percent: s.Percent, Ended: s.Ended, Flagged: s.Flagged(),
		Seen: s.Seen, Compared: s.Compared, Agreed: s.Agreed, Failed: s.Failed, LastError: s.LastError,
		Dropped: s.Dropped, Skipped: s.Skipped, Waiting: s.Waiting, GapUs: s.GapSeconds * 1e6, GapErrorUs: -1,
	}
	if !math.IsInf(s.GapError, 0) {
		out.GapErrorUs = s.GapError * 1e6
	}
	for _, o := range s.Outputs {
		out.Outputs = append(out.Outputs, api.ShadowedOutput{Name: o.Name, Rule: string(o.Rule), Agreed: o.Agreed,
			Mismatched: o.Mismatched, MaxAbs: o.MaxAbs, MaxRel: o.MaxRel})
	}
	return out, nil
}

// StartShadow loads a candidate.
func (h *Handler) StartShadow(r *http.Request, req *api.StartShadow) (out api.Shadow, err error) {
	version, ok := repo.ParseVersion(req.Version)
	if !ok {
		return out, rest.Errorf(api.CodeInvalid, "%s is not the number of a version", rest.Quote(req.Version))
	}
	rule := shadow.Rule{Kind: shadow.RuleKind(req.Rule), Tolerance: req.Tolerance}
	kinds := []shadow.RuleKind{shadow.ByOutput, shadow.RuleTop, shadow.RuleNear, shadow.RuleEqual}
	if !slices.Contains(kinds, rule.Kind) || !(rule.Tolerance >= 0) {
		return out, rest.Errorf(api.CodeInvalid,
			"rule %s with tolerance %v is not known; use top, near or equal, and a tolerance of at least 0",
			rest.Quote(req.Rule), req.Tolerance)
	}
	defer h.Catalog.Lock(r.PathValue("name"))()
	err = h.Engine.Shadows().Start(context.WithoutCancel(r.Context()), r.PathValue("name"), lifecycle.ShadowOptions{
		Version: version, Percent: req.Percent, Rule: rule, WhenBusy: req.WhenBusy})
	if err != nil {
		return out, err
	}
	return h.Shadow(r)
}

// DiscardShadow ends the candidate.
func (h *Handler) DiscardShadow(r *http.Request) (out api.Shadow, err error) {
	if err := h.Engine.Shadows().Discard(r.PathValue("name"), "discarded"); err != nil {
		return out, err
	}
	return h.Shadow(r)
}

// PromoteShadow takes the candidate into service in the place of the version that it was compared with.
func (h *Handler) PromoteShadow(r *http.Request) (api.LoadResult, error) {
	return h.change(r.PathValue("name"), func(name string) error {
		return h.Engine.Shadows().Promote(context.WithoutCancel(r.Context()), name)
	})
}
