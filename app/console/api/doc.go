// Package api is the wire contract of the console: the Go structs of every request and response of the
// GUI's HTTP interface, and the list of its routes. It has no behaviour beyond encoding. Package console
// implements it, and tsgen writes the same types for the page to frontend/src/lib/api.gen.ts. A test compares the
// routes below with those that are served.
//
// # Rules that hold for every route
//
//   - Bodies are JSON in UTF-8 unless the route says otherwise. Field names are camelCase; a number's unit
//     ends its name (Ms, Us, Bytes). Times are milliseconds since the Unix epoch, UTC.
//   - Lists are never null: List encodes nil as [].
//   - An error has an HTTP status of 400 or more and the body Error. The status follows from its code (Code).
//   - A request whose method is not GET or HEAD must carry the header "X-Nereid: 1" (any other value, or none:
//     403 forbidden). A browser cannot send that header to another origin without a preflight, which the
//     console answers only for its own page and the desktop window's origins. Host and Origin are checked on
//     every request (DNS rebinding).
//   - A client with a token of the scope view may only look: each other route is 403 forbidden. See Server.Scopes.
//   - {name} is a model name, percent-escaped as one path segment. {path...} keeps its slashes; each of its
//     segments is percent-escaped.
//
// # Routes
//
// Server
//
//	GET    /config.js → script  sets window.__base; it is "" in a browser
//	POST   /api/session OpenSession → 204  unauthenticated; a cookie lets the browser in. See Code
//	GET    /api/server → Server
//	GET    /api/support → a zip file
//	GET    /api/metrics → Metrics  unsupported (there are none)
//	GET    /api/machine → Machine
//	GET    /api/frameworks → Frameworks
//	POST   /api/frameworks/{name}/install InstallFramework → 202 Framework  not_found, consent, conflict
//	DELETE /api/frameworks/{name}/install → Framework  not_found, conflict (not being installed)
//	GET    /api/logs?after=&level=&model=&text=&source= → Logs  invalid; level is the lowest, source server or process
//	PUT    /api/logs/settings SetLog → LogSettings
//	POST   /api/client-errors ClientError → 204  an error of the page; logged, at most 10 a minute
//
// Models
//
//	GET    /api/models → Models
//	GET    /api/models/{name} → ModelDetail  not_found
//	GET    /api/models/{name}/runtime → ModelRuntime  not_found
//	POST   /api/models/{name}/load → LoadResult  not_found; a load that fails is 200 with ok=false
//	POST   /api/models/{name}/unload → LoadResult  not_found, conflict (an ensemble needs it)
//	POST   /api/models/{name}/versions/{version}/load → LoadResult  not_found
//	POST   /api/models/{name}/versions/{version}/unload → LoadResult  not_found
//	GET    /api/models/{name}/shadow → Shadow  not_found
//	POST   /api/models/{name}/shadow StartShadow → 201 Shadow  not_found, invalid, unsupported, unavailable
//	DELETE /api/models/{name}/shadow → Shadow  not_found
//	POST   /api/models/{name}/shadow/promote → LoadResult  not_found
//	PUT    /api/models/{name}/pin SetPin → Model  not_found
//	DELETE /api/models/{name} → Trashed  not_found, conflict, forbidden (repository not writable)
//	GET    /api/models/{name}/requests → SavedRequests  not_found
//	GET    /api/models/{name}/requests/{request} → SavedRequest  not_found, invalid, too_large
//	PUT    /api/models/{name}/requests/{request} SaveRequest → SavedRequests  forbidden, conflict, invalid, too_large
//	GET    /api/models/{name}/archive → application/zip  not_found; one top folder named as the model
//	POST   /api/models/{name}/warmup WarmupRequest → WarmupResult  not_found, unavailable (not ready), invalid
//	GET    /api/models/{name}/load-test → LoadTest  not_found; the running or the last one
//	POST   /api/models/{name}/load-test StartLoadTest → 202 LoadTest  not_found, unavailable, invalid, conflict
//	DELETE /api/models/{name}/load-test → LoadTest  conflict (none runs); it ends soon after
//	POST   /api/models/{name}/what-if WhatIf → Prediction  not_found, unavailable, unsupported, invalid
//	GET    /api/models/{name}/inspection?version=&runs=&dims= → Inspection  not_found, unsupported, invalid, conflict
//	GET    /api/models/{name}/graph?version= → Graph  not_found, unsupported, invalid
//	GET    /api/models/{name}/tunings → Tunings  not_found; the running one first
//	POST   /api/models/{name}/tunings/plan StartTuning → TuningPlan  not_found, invalid, unavailable (no config)
//	POST   /api/models/{name}/tunings StartTuning → 202 Tuning  as plan; conflict (a model is tuned or measured)
//	GET    /api/models/{name}/tunings/{id}?from= → Tuning  not_found; from: the first trial that is wanted
//	POST   /api/models/{name}/tunings/{id}/stop → Tuning  not_found, conflict (it has ended); it ends soon after
//	DELETE /api/models/{name}/tunings/{id} → 204  not_found, conflict (it runs)
//	GET    /api/models/{name}/tunings/{id}/configs/{config} → TuningTexts  not_found
//	POST   /api/models/{name}/tunings/{id}/apply ApplyTuning → AppliedTuning  not_found, forbidden, conflict
//	GET    /api/models/{name}/alerts → AlertRules  not_found, unsupported (the history is off)
//	PUT    /api/models/{name}/alerts SetAlertRules → AlertRules  as before; invalid
//	GET    /api/models/{name}/capture → Capture  not_found, unsupported (requests are not recorded; namespaces)
//	PUT    /api/models/{name}/capture SetCapture → Capture  as before; invalid
//	POST   /api/models/{name}/replay ReplayRequests → Replays  as before; invalid, unavailable (not ready)
//	DELETE /api/models/{name}/capture → Capture  as before; removes the contents that were captured
//	GET    /api/models/{name}/loads → ModelLoads  the last 20 loads
//	GET    /api/trash → Trash
//	POST   /api/trash/{id}/restore → Trashed  not_found, conflict (a model of that name exists)
//
// Imports: a staged copy outside the repository, until commit. See Import for the steps. Downloads and conversions end
// with folders that can be imported.
//
//	GET    /api/gallery → Gallery
//	POST   /api/downloads StartDownload → 201 Download  invalid, conflict (too many run), unsupported
//	GET    /api/downloads/{id} → Download  not_found
//	DELETE /api/downloads/{id} → 204  not_found; stops it and removes what it fetched
//	POST   /api/conversions → 201 Conversion  conflict (too many run), unsupported
//	PUT    /api/conversions/{id}/files/{path...} bytes → 204  not_found, invalid, conflict (started), too_large
//	POST   /api/conversions/{id}/start StartConversion → Conversion  not_found, invalid, conflict, unsupported
//	GET    /api/conversions/{id} → Conversion  not_found
//	DELETE /api/conversions/{id} → 204  not_found; stops it and removes what it made
//	POST   /api/imports ImportCreate → 201 Import  invalid, too_large, forbidden (the path)
//	GET    /api/imports/{id} → Import  not_found
//	PUT    /api/imports/{id}/files/{path...} bytes → 204  not_found, invalid, conflict (not uploading), too_large
//	POST   /api/imports/{id}/analyze → Import  not_found, invalid (nothing uploaded, unreadable zip)
//	PUT    /api/imports/{id}/config ImportConfig → Import  not_found, conflict
//	POST   /api/imports/{id}/commit ImportCommit → 202 Import  not_found, conflict (name taken, faults), consent
//	DELETE /api/imports/{id} → 204  not_found
//
// Configuration
//
//	GET    /api/config/fields → ConfigFields
//	POST   /api/config/check CheckRequest → CheckResult  not_found (model or import)
//	PUT    /api/models/{name}/config SaveConfig → SaveResult  not_found, conflict (old baseRevision), invalid (faults)
//	GET    /api/models/{name}/revisions → Revisions  not_found
//	GET    /api/models/{name}/revisions/{id} → RevisionFull  not_found
//	POST   /api/models/{name}/revisions/{id}/restore RestoreRequest → SaveResult  not_found, conflict
//
// Inference: the same request and the same reply as port 8000, on the page's own origin.
//
//	POST   /api/infer/{name} → as POST /v2/models/{name}/infer
//	POST   /api/infer/{name}/versions/{version} → as POST /v2/models/{name}/versions/{version}/infer
//	POST   /api/compare/{name}/versions/{version}/with/{other}?repeat= → Comparison  invalid, too_large
//
// The body and its headers are those of an inference request. Both versions get it repeat times, by turns: 1 to 50.
//
// Request headers (Content-Type, Inference-Header-Content-Length, …) and reply, status and headers included,
// pass through unchanged; errors have Triton's form {"error": "…"}. Where the stamps of the request are known
// the reply has one header more, the standard Server-Timing, with durations in milliseconds:
// queue;dur=0.012, input;dur=0.001, infer;dur=0.530, output;dur=0.002, total;dur=0.560.
//
// The public page, on a separate port and without a token. Inference is POST /api/infer/{name}; it is for the page's
// models, without shared memory, with bodies of at most 16 MiB, and for 30 s.
//
//	GET    /api/kiosk → Kiosk
//	GET    /api/kiosk/{name} → KioskDetail  not_found
//	GET    /api/kiosk/{name}/requests/{request} → SavedRequest  not_found, invalid, too_large
//
// History and live data
//
//	GET    /api/history?model=&version=&from=&to=&step=&most= → History  invalid
//	GET    /api/history/machine?model=&from=&to=&step= → MachineHistory  invalid
//	GET    /api/history/events?from=&to=&model=&kind=&limit=&before= → Events  invalid
//	GET    /api/refused → Refused
//	GET    /api/alerts → Alerts
//	GET    /api/alerts/rules → AlertRules  unsupported (the history is off)
//	PUT    /api/alerts/rules SetAlertRules → AlertRules  as before; invalid
//	POST   /api/alerts/{id}/dismiss → Alerts  not_found, unsupported (the history is off)
//	GET    /api/monitoring/dashboard → a dashboard for Grafana, JSON
//	GET    /api/monitoring/rules → alerting rules for Prometheus, YAML; without limits if the history is off
//	GET    /api/webhook → Webhook  unsupported (the history is off)
//	PUT    /api/webhook SetWebhook → Webhook  as before; invalid
//	POST   /api/webhook/test → Webhook  as before; conflict (there is none)
//	GET    /api/requests?show=&model=&client=&id=&text=&after=&before=&limit= → Requests  invalid
//	GET    /api/requests/live?of=… → a stream of RequestsEvent; each "of" is a query of /api/requests  invalid
//	GET    /api/requests/{id} → RequestDetail  not_found
//	GET    /api/requests/{id}/contents → RequestContents  not_found (it was not captured)
//	POST   /api/requests/{id}/replay ReplayRequest → Replay  as before; unavailable, invalid (not all of it is kept)
//	GET    /api/events?topics= → text/event-stream
//
// from and to are milliseconds (default: the last 15 minutes); step is milliseconds, 0 or absent: the server
// chooses about 600 steps, and answers with the step used. An empty model means all models, an empty version all
// versions as one series per version. limit is 1..1000 (default 200), newest first; before is an event id for
// the next page.
//
// The stream has one "event:" name per topic, with the data types
//
//	models    ModelsEvent    at once with full=true, then at every change of state, reason, version or configuration
//	samples   SamplesEvent   once a second, while any model version is loaded; without the versions that were idle
//	event     Event          each new row of the event history
//	machine   Machine        every 2 s
//	framework Framework      every second while one is installed, and at its end
//	import    Import         at every change of a staged import; origin "window" asks the page to open it
//
// topics is a comma-separated choice, default all. A comment line goes out every 15 s. There is no replay: after
// a reconnect the page reads GET /api/history for what it missed. A reader that falls behind is cut off.
//
// Access
//
//	GET    /api/access → Access
//	POST   /api/access/tokens NewToken → 201 MadeToken  invalid; only this reply has the token's text
//	DELETE /api/access/tokens/{id} → Access  not_found
//	PUT    /api/access/network SetNetwork → Access  conflict (no token yet, no such address, options decide)
//
// # Desktop window only (not_found elsewhere)
//
//	GET    /api/desktop → Desktop
//	PUT    /api/desktop SetDesktop → Desktop  conflict (the autostart entry cannot be changed)
//	POST   /api/desktop/pick PickRequest → PickResult  opens the system's file dialog; empty path: cancelled
package api
