package console

import (
	"net/http"
	"slices"

	"nereid/app/access"
	"nereid/app/console/api"
	"nereid/app/console/rest"
)

// route is one route of the console's interface. Its method decides what the guard requires: GET only reads; any other
// method changes something and needs the header X-Nereid. A token with the scope view opens the routes that show the
// server's state, and one with infer too those that try models. Logs, contents of requests, tokens and everything that
// changes something need admin.
type route struct {
	method, path string
	endpoint     rest.Endpoint
}

// routes lists all routes but the page's files.
func (c *Console) routes() []route {
	return slices.Concat(c.serverRoutes(), c.modelRoutes(), c.measuringRoutes(), c.importRoutes(), c.configRoutes())
}

// serverRoutes are about the server: its machine, its history and its settings.
func (c *Console) serverRoutes() []route {
	return []route{
		{"GET", "/config.js", rest.Raw(configScript)},
		{"POST", sessionPath, c.sessionEndpoint()},
		{"GET", "/api/server", rest.Reply(c.server.State).For(access.View)},
		{"GET", "/api/support", rest.Raw(c.server.SupportBundle)},
		{"GET", "/api/metrics", rest.Reply(c.server.MetricFamilies).For(access.View)},
		{"GET", "/api/machine", rest.Reply(c.monitor.Machine).For(access.View)},
		{"GET", "/api/frameworks", rest.Reply(c.frameworks.List).For(access.View)},
		{"POST", "/api/frameworks/{name}/install", rest.Call(c.frameworks.Install).With(http.StatusAccepted)},
		{"DELETE", "/api/frameworks/{name}/install", rest.Reply(c.frameworks.Stop)},
		{"POST", "/api/client-errors", c.clientErrors.endpoint()},
		{"GET", "/api/history", rest.Reply(c.history.Series).For(access.View)},
		{"GET", "/api/history/events", rest.Reply(c.history.Events).For(access.View)},
		{"GET", "/api/history/machine", rest.Reply(c.history.Machine).For(access.View)},
		{"GET", "/api/refused", rest.Reply(c.history.RefusedRequests).For(access.View)},
		{"GET", "/api/alerts", rest.Reply(c.alerts.List).For(access.View)},
		{"GET", "/api/alerts/rules", rest.Reply(c.alerts.Rules).For(access.View)},
		{"PUT", "/api/alerts/rules", rest.Call(c.alerts.SetRules)},
		{"POST", "/api/alerts/{id}/dismiss", rest.Reply(c.alerts.Dismiss)},
		{"GET", "/api/monitoring/dashboard", rest.Raw(c.alerts.Dashboard).For(access.View)},
		{"GET", "/api/monitoring/rules", rest.Raw(c.alerts.PrometheusRules).For(access.View)},
		{"GET", "/api/webhook", rest.Reply(c.alerts.WebhookState)},
		{"PUT", "/api/webhook", rest.Call(c.alerts.SetWebhook)},
		{"POST", "/api/webhook/test", rest.Reply(c.alerts.TestWebhook)},
		{"GET", "/api/requests", rest.Reply(c.requests.List).For(access.View)},
		{"GET", "/api/requests/live", rest.Raw(c.requests.Live).For(access.View)},
		{"GET", "/api/requests/{id}", rest.Reply(c.requests.Get).For(access.View)},
		{"GET", "/api/requests/{id}/contents", rest.Reply(c.requests.Contents)},
		{"POST", "/api/requests/{id}/replay", rest.Call(c.requests.Replay)},
		{"GET", "/api/logs", rest.Reply(c.logs.Read)},
		{"PUT", "/api/logs/settings", rest.Call(c.logs.Set)},
		{"GET", "/api/events", rest.Raw(c.serveStream).For(access.View)},
		{"GET", "/api/access", rest.Reply(c.access.State)},
		{"POST", "/api/access/tokens", rest.Call(c.access.CreateToken).With(http.StatusCreated)},
		{"DELETE", "/api/access/tokens/{id}", rest.Reply(c.access.RevokeToken)},
		{"PUT", "/api/access/network", rest.Call(c.access.SetNetwork)},
		{"GET", "/api/desktop", rest.Reply(c.window.State).For(access.View)},
		{"PUT", "/api/desktop", rest.Call(c.window.Set)},
		{"POST", "/api/desktop/pick", rest.Call(c.window.PickFile)},
	}
}

// modelRoutes show, load, remove and call models.
func (c *Console) modelRoutes() []route {
	return []route{
		{"GET", "/api/models", rest.Reply(c.models.List).For(access.View)},
		{"GET", "/api/models/{name}", rest.Reply(c.models.Get).For(access.View)},
		{"GET", "/api/models/{name}/runtime", rest.Reply(c.runtime.Model).For(access.View)},
		{"POST", "/api/models/{name}/load", rest.Reply(c.models.Load)},
		{"POST", "/api/models/{name}/unload", rest.Reply(c.models.Unload)},
		{"POST", "/api/models/{name}/versions/{version}/load", rest.Reply(c.models.LoadVersion)},
		{"POST", "/api/models/{name}/versions/{version}/unload", rest.Reply(c.models.UnloadVersion)},
		{"GET", "/api/models/{name}/shadow", rest.Reply(c.models.Shadow).For(access.View)},
		{"POST", "/api/models/{name}/shadow", rest.Call(c.models.StartShadow).With(http.StatusCreated)},
		{"DELETE", "/api/models/{name}/shadow", rest.Reply(c.models.DiscardShadow)},
		{"GET", "/api/models/{name}/capture", rest.Reply(c.requests.GetCapture).For(access.View)},
		{"PUT", "/api/models/{name}/capture", rest.Call(c.requests.SetCapture)},
		{"DELETE", "/api/models/{name}/capture", rest.Reply(c.requests.ForgetCapture)},
		{"POST", "/api/models/{name}/replay", rest.Call(c.requests.ReplayLast)},
		{"POST", "/api/models/{name}/shadow/promote", rest.Reply(c.models.PromoteShadow)},
		{"PUT", "/api/models/{name}/pin", rest.Call(c.models.Pin)},
		{"DELETE", "/api/models/{name}", rest.Reply(c.models.Delete)},
		{"GET", "/api/models/{name}/requests", rest.Reply(c.models.SavedRequests).For(access.View)},
		{"GET", "/api/models/{name}/requests/{request}", rest.Reply(c.models.SavedRequest).For(access.Infer)},
		{"PUT", "/api/models/{name}/requests/{request}", rest.Call(c.models.SaveRequest)},
		{"GET", "/api/models/{name}/archive", rest.Raw(c.models.Archive)},
		{"POST", "/api/models/{name}/warmup", rest.Call(c.models.WarmUp)},
		{"GET", "/api/models/{name}/alerts", rest.Reply(c.alerts.Rules).For(access.View)},
		{"PUT", "/api/models/{name}/alerts", rest.Call(c.alerts.SetRules)},
		{"GET", "/api/models/{name}/loads", rest.Reply(c.history.Loads).For(access.View)},
		{"GET", "/api/trash", rest.Reply(c.models.ListTrash)},
		{"POST", "/api/trash/{id}/restore", rest.Reply(c.models.Restore)},
		{"POST", "/api/infer/{name}", rest.Raw(c.proxy.Infer).For(access.Infer)},
		{"POST", "/api/infer/{name}/versions/{version}", rest.Raw(c.proxy.Infer).For(access.Infer)},
		{"POST", "/api/compare/{name}/versions/{version}/with/{other}",
			rest.Reply(c.comparer.Compare).For(access.Infer)},
	}
}

// measuringRoutes run load tests and tunings.
func (c *Console) measuringRoutes() []route {
	return []route{
		{"GET", "/api/models/{name}/load-test", rest.Reply(c.tuning.LoadTest).For(access.View)},
		{"POST", "/api/models/{name}/load-test", rest.Call(c.tuning.StartLoadTest).With(http.StatusAccepted)},
		{"DELETE", "/api/models/{name}/load-test", rest.Reply(c.tuning.StopLoadTest)},
		{"POST", "/api/models/{name}/what-if", rest.Call(c.tuning.WhatIf).For(access.View)},
		{"GET", "/api/models/{name}/inspection", rest.Reply(c.inspection.Get)},
		{"GET", "/api/models/{name}/graph", rest.Reply(c.inspection.Graph).For(access.View)},
		{"GET", "/api/models/{name}/tunings", rest.Reply(c.tuning.List).For(access.View)},
		{"POST", "/api/models/{name}/tunings/plan", rest.Call(c.tuning.Plan)},
		{"POST", "/api/models/{name}/tunings", rest.Call(c.tuning.Start).With(http.StatusAccepted)},
		{"GET", "/api/models/{name}/tunings/{id}", rest.Reply(c.tuning.Get).For(access.View)},
		{"POST", "/api/models/{name}/tunings/{id}/stop", rest.Reply(c.tuning.Stop)},
		{"DELETE", "/api/models/{name}/tunings/{id}", rest.Do(c.tuning.Delete)},
		{"GET", "/api/models/{name}/tunings/{id}/configs/{config}", rest.Reply(c.tuning.Config).For(access.View)},
		{"POST", "/api/models/{name}/tunings/{id}/apply", rest.Call(c.tuning.Apply)},
	}
}

// importRoutes take in models.
func (c *Console) importRoutes() []route {
	return []route{
		{"GET", "/api/gallery", rest.Reply(c.downloads.Gallery)},
		{"POST", "/api/downloads", rest.Call(c.downloads.Start).With(http.StatusCreated)},
		{"GET", "/api/downloads/{id}", rest.Reply(c.downloads.Get)},
		{"DELETE", "/api/downloads/{id}", rest.Do(c.downloads.Cancel)},
		{"POST", "/api/conversions", rest.Reply(c.conversions.Create).With(http.StatusCreated)},
		{"PUT", "/api/conversions/{id}/files/{path...}", rest.Do(c.conversions.PutFile)},
		{"POST", "/api/conversions/{id}/start", rest.Call(c.conversions.Start)},
		{"GET", "/api/conversions/{id}", rest.Reply(c.conversions.Get)},
		{"DELETE", "/api/conversions/{id}", rest.Do(c.conversions.Cancel)},
		{"POST", "/api/imports", rest.Call(c.imports.Create).With(http.StatusCreated)},
		{"GET", "/api/imports/{id}", rest.Reply(c.imports.Get)},
		{"PUT", "/api/imports/{id}/files/{path...}", rest.Do(c.imports.PutFile)},
		{"POST", "/api/imports/{id}/analyze", rest.Reply(c.imports.Analyze)},
		{"PUT", "/api/imports/{id}/config", rest.Call(c.imports.Configure)},
		{"POST", "/api/imports/{id}/commit", rest.Call(c.imports.Commit).With(http.StatusAccepted)},
		{"DELETE", "/api/imports/{id}", rest.Do(c.imports.Delete)},
	}
}

// configRoutes edit configurations.
func (c *Console) configRoutes() []route {
	return []route{
		{"GET", "/api/config/fields", rest.Reply(c.configs.Fields).Cached().For(access.View)},
		{"POST", "/api/config/check", rest.Call(c.configs.Check)},
		{"PUT", "/api/models/{name}/config", rest.Call(c.configs.Save)},
		{"GET", "/api/models/{name}/revisions", rest.Reply(c.configs.Revisions).For(access.View)},
		{"GET", "/api/models/{name}/revisions/{id}", rest.Reply(c.configs.Revision).For(access.View)},
		{"POST", "/api/models/{name}/revisions/{id}/restore", rest.Call(c.configs.Restore)},
	}
}

// kioskRoutes are the routes of the public page, on a separate port. Visitors need no token.
func (c *Console) kioskRoutes() []route {
	return []route{
		{"GET", "/config.js", rest.Raw(kioskScript)},
		{"GET", "/api/kiosk", rest.Reply(c.kiosk.List)},
		{"GET", "/api/kiosk/{name}", rest.Reply(c.kiosk.Get)},
		{"GET", "/api/kiosk/{name}/requests/{request}", rest.Reply(c.kiosk.Example)},
		{"POST", "/api/infer/{name}", rest.Raw(c.kiosk.Try)},
	}
}

func (c *Console) serveStream(w http.ResponseWriter, r *http.Request) error {
	return c.streams.Serve(w, r, c.watcher.All)
}

func (c *Console) mux(routes []route, page http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, r.endpoint.Handler(c.log, c.memory))
	}
	mux.Handle("/api/", rest.Raw(func(http.ResponseWriter, *http.Request) error {
		return rest.Errorf(api.CodeNotFound, "no such route; see GET /api/server")
	}).Handler(c.log, nil))
	mux.Handle("/", page)
	return mux
}
