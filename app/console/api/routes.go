package api

// Route is one entry of the console's interface, as doc.go lists it.
type Route struct {
	Method string
	// Path is a net/http pattern path.
	Path string
	// Request and Response name the body types of this package; empty: no body, or not JSON.
	Request, Response string
	// Status of success.
	Status int
}

// Routes lists every route below /api/. A test of package console checks that each is served.
func Routes() []Route {
	return []Route{
		{"GET", "/api/server", "", "Server", 200},
		{"GET", "/api/machine", "", "Machine", 200},
		{"GET", "/api/frameworks", "", "Frameworks", 200},
		{"POST", "/api/frameworks/{name}/install", "InstallFramework", "Framework", 202},
		{"DELETE", "/api/frameworks/{name}/install", "", "Framework", 200},
		{"POST", "/api/client-errors", "ClientError", "", 204},
		{"GET", "/api/models", "", "Models", 200},
		{"GET", "/api/models/{name}", "", "ModelDetail", 200},
		{"GET", "/api/models/{name}/runtime", "", "ModelRuntime", 200},
		{"POST", "/api/models/{name}/load", "", "LoadResult", 200},
		{"POST", "/api/models/{name}/unload", "", "LoadResult", 200},
		{"POST", "/api/models/{name}/versions/{version}/load", "", "LoadResult", 200},
		{"POST", "/api/models/{name}/versions/{version}/unload", "", "LoadResult", 200},
		{"PUT", "/api/models/{name}/pin", "SetPin", "Model", 200},
		{"DELETE", "/api/models/{name}", "", "Trashed", 200},
		{"GET", "/api/models/{name}/archive", "", "", 200},
		{"POST", "/api/models/{name}/warmup", "WarmupRequest", "WarmupResult", 200},
		{"GET", "/api/models/{name}/load-test", "", "LoadTest", 200},
		{"POST", "/api/models/{name}/load-test", "StartLoadTest", "LoadTest", 202},
		{"DELETE", "/api/models/{name}/load-test", "", "LoadTest", 200},
		{"GET", "/api/models/{name}/tunings", "", "Tunings", 200},
		{"POST", "/api/models/{name}/tunings/plan", "StartTuning", "TuningPlan", 200},
		{"POST", "/api/models/{name}/tunings", "StartTuning", "Tuning", 202},
		{"GET", "/api/models/{name}/tunings/{id}", "", "Tuning", 200},
		{"POST", "/api/models/{name}/tunings/{id}/stop", "", "Tuning", 200},
		{"DELETE", "/api/models/{name}/tunings/{id}", "", "", 204},
		{"GET", "/api/models/{name}/tunings/{id}/configs/{config}", "", "TuningTexts", 200},
		{"POST", "/api/models/{name}/tunings/{id}/apply", "ApplyTuning", "AppliedTuning", 200},
		{"GET", "/api/trash", "", "Trash", 200},
		{"POST", "/api/trash/{id}/restore", "", "Trashed", 200},
		{"POST", "/api/imports", "ImportCreate", "Import", 201},
		{"GET", "/api/imports/{id}", "", "Import", 200},
		{"PUT", "/api/imports/{id}/files/{path...}", "", "", 204},
		{"POST", "/api/imports/{id}/analyze", "", "Import", 200},
		{"PUT", "/api/imports/{id}/config", "ImportConfig", "Import", 200},
		{"POST", "/api/imports/{id}/commit", "ImportCommit", "Import", 202},
		{"DELETE", "/api/imports/{id}", "", "", 204},
		{"GET", "/api/config/fields", "", "ConfigFields", 200},
		{"POST", "/api/config/check", "CheckRequest", "CheckResult", 200},
		{"PUT", "/api/models/{name}/config", "SaveConfig", "SaveResult", 200},
		{"GET", "/api/models/{name}/revisions", "", "Revisions", 200},
		{"GET", "/api/models/{name}/revisions/{id}", "", "RevisionFull", 200},
		{"POST", "/api/models/{name}/revisions/{id}/restore", "RestoreRequest", "SaveResult", 200},
		{"POST", "/api/infer/{name}", "", "", 200},
		{"POST", "/api/infer/{name}/versions/{version}", "", "", 200},
		{"GET", "/api/history", "", "History", 200},
		{"GET", "/api/history/events", "", "Events", 200},
		{"GET", "/api/events", "", "", 200},
		{"GET", "/api/access", "", "Access", 200},
		{"POST", "/api/access/tokens", "NewToken", "MadeToken", 201},
		{"DELETE", "/api/access/tokens/{id}", "", "Access", 200},
		{"PUT", "/api/access/network", "SetNetwork", "Access", 200},
		{"GET", "/api/desktop", "", "Desktop", 200},
		{"PUT", "/api/desktop", "SetDesktop", "Desktop", 200},
		{"POST", "/api/desktop/pick", "PickRequest", "PickResult", 200},
	}
}
