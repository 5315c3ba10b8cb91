package alerts

import (
	"net/http"
	"strconv"
	"time"

	"nereid/app/alerts"
	"nereid/app/console/api"
	"nereid/app/console/catalog"
	"nereid/app/console/rest"
	"nereid/app/monitoring"
)

// Handler serves the routes of alerts.
type Handler struct {
	Watch   *alerts.Watch   // nil: the history is off, and with it the alerts
	Webhook *alerts.Webhook // nil as Watch
	Catalog *catalog.Catalog
}

func (h *Handler) off() error {
	if h.Watch == nil {
		return rest.Errorf(api.CodeUnsupported, "this server records no history, so it has no alerts; leave out "+
			"--history=false")
	}
	return nil
}

// List returns the alerts.
func (h *Handler) List(*http.Request) (out api.Alerts, err error) {
	if h.Watch == nil {
		return out, nil
	}
	open, past := h.Watch.Alerts()
	for _, a := range open {
		out.Open = append(out.Open, h.show(a))
	}
	for _, a := range past {
		out.Past = append(out.Past, h.show(a))
	}
	return out, nil
}

func (h *Handler) show(a alerts.Alert) api.Alert {
	out := api.Alert{ID: a.ID, Kind: api.AlertKind(a.Kind), Model: a.Model, Version: strconv.FormatInt(a.Version, 10),
		SinceMs: a.SinceUS / 1000, EndMs: a.EndUS / 1000, Value: a.Value, Limit: a.Limit,
		Silenced: h.Watch.Rules(a.Model).SilencedUntilMS > time.Now().UnixMilli()}
	if a.Kind == alerts.Version {
		out.Compared = &api.Compared{Before: strconv.FormatInt(a.BeforeVersion, 10), Slower: a.Slower,
			FailsMore: a.FailsMore, BeforeUs: a.BeforeUS, NowUs: a.NowUS,
			BeforeFailures: a.FailuresBefore, NowFailures: a.FailuresNow}
		if a.CPUBefore >= 0 && a.CPUNow >= 0 {
			out.Compared.BeforeCPU, out.Compared.NowCPU = &a.CPUBefore, &a.CPUNow
		}
	}
	return out
}

// Dismiss ends an alert.
func (h *Handler) Dismiss(r *http.Request) (out api.Alerts, err error) {
	if err := h.off(); err != nil {
		return out, err
	}
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return out, rest.Errorf(api.CodeNotFound, "there is no alert %s", rest.Quote(r.PathValue("id")))
	}
	if err := h.Watch.Dismiss(r.Context(), id); err != nil {
		return out, err
	}
	return h.List(r)
}

// subject returns whose rules a request is about: the name of a model, or alerts.Server for the route without one.
func (h *Handler) subject(r *http.Request) (name string, kinds []alerts.Kind, err error) {
	if err := h.off(); err != nil {
		return "", nil, err
	}
	if name = r.PathValue("name"); name == "" {
		return alerts.Server, []alerts.Kind{alerts.Refused}, nil
	}
	m, err := h.Catalog.Find(name)
	if err != nil {
		return "", nil, err
	}
	return m.Name, alerts.Kinds, nil
}

// Rules returns the rules of a model or of the server.
func (h *Handler) Rules(r *http.Request) (out api.AlertRules, err error) {
	name, kinds, err := h.subject(r)
	if err != nil {
		return out, err
	}
	usual, err := h.Watch.Limits(r.Context(), name)
	if err != nil {
		return out, err
	}
	own := h.Watch.Rules(name)
	out.SilencedUntilMs = own.SilencedUntilMS
	for _, kind := range kinds {
		rule := api.AlertRule{Kind: api.AlertKind(kind), On: !own.Rules[kind].Off, Limit: own.Rules[kind].Limit}
		if limit, ok := usual[kind]; ok {
			rule.Usual = &limit
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, nil
}

// SetRules keeps the rules of a model or of the server.
func (h *Handler) SetRules(r *http.Request, req *api.SetAlertRules) (out api.AlertRules, err error) {
	name, _, err := h.subject(r)
	if err != nil {
		return out, err
	}
	rules := alerts.Rules{SilencedUntilMS: req.SilencedUntilMs, Rules: map[alerts.Kind]alerts.Rule{}}
	for _, rule := range req.Rules {
		if own := (alerts.Rule{Off: !rule.On, Limit: rule.Limit}); own != (alerts.Rule{}) {
			rules.Rules[alerts.Kind(rule.Kind)] = own
		}
	}
	if err := rules.Check(name); err != nil {
		return out, rest.Errorf(api.CodeInvalid, "%v", err)
	}
	if err := h.Watch.SetRules(r.Context(), name, rules); err != nil {
		return out, err
	}
	return h.Rules(r)
}

// Dashboard replies with a dashboard for Grafana.
func (h *Handler) Dashboard(w http.ResponseWriter, _ *http.Request) error {
	content, err := monitoring.Dashboard()
	if err != nil {
		return err
	}
	return send(w, "application/json", "nereid-dashboard.json", content)
}

// PrometheusRules replies with alerting rules that have the limits in force. Without a history there are no limits.
func (h *Handler) PrometheusRules(w http.ResponseWriter, r *http.Request) error {
	var all []monitoring.Limits
	if h.Watch != nil {
		names := []string{alerts.Server}
		for _, m := range h.Catalog.All() {
			names = append(names, m.Name)
		}
		for _, name := range names {
			limits, err := h.Watch.InForce(r.Context(), name)
			if err != nil {
				return err
			}
			all = append(all, monitoring.Limits{Model: name, Limits: limits})
		}
	}
	content, err := monitoring.Rules(all)
	if err != nil {
		return err
	}
	return send(w, "application/yaml", "nereid-rules.yml", content)
}

func send(w http.ResponseWriter, kind, name string, content []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, err := w.Write(content)
	return err
}

// WebhookState returns the webhook without its secret.
func (h *Handler) WebhookState(*http.Request) (out api.Webhook, err error) {
	if err := h.off(); err != nil {
		return out, err
	}
	t, s := h.Webhook.State()
	return api.Webhook{URL: t.URL, Signed: t.Secret != "", Delivered: s.Delivered, Dropped: s.Dropped,
		Waiting: s.Waiting, Error: s.LastError}, nil
}

// SetWebhook changes the webhook.
func (h *Handler) SetWebhook(r *http.Request, req *api.SetWebhook) (out api.Webhook, err error) {
	if err := h.off(); err != nil {
		return out, err
	}
	target, _ := h.Webhook.State()
	target.URL = req.URL
	if req.Secret != nil {
		target.Secret = *req.Secret
	}
	if err := target.Check(); err != nil {
		return out, rest.Errorf(api.CodeInvalid, "%v", err)
	}
	if err := h.Webhook.Set(r.Context(), target); err != nil {
		return out, err
	}
	return h.WebhookState(r)
}

// TestWebhook sends a message that is no alert.
func (h *Handler) TestWebhook(r *http.Request) (out api.Webhook, err error) {
	if err := h.off(); err != nil {
		return out, err
	}
	if target, _ := h.Webhook.State(); target.URL == "" {
		return out, rest.Errorf(api.CodeConflict, "there is no webhook yet; save its address first")
	}
	h.Webhook.Test()
	return h.WebhookState(r)
}
