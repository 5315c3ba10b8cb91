package api

// AlertKind is what an alert is about.
type AlertKind string

// The kinds, with the unit of their values and limits.
const (
	AlertFailures AlertKind = "failures" // share of the requests, 0 to 1
	AlertP99      AlertKind = "p99"      // microseconds
	AlertRestarts AlertKind = "restarts" // ended processes within ten minutes
	AlertQueue    AlertKind = "queue"    // waiting requests
	AlertMemory   AlertKind = "memory"   // bytes
	// AlertVersion: a version is worse than what served before. The value is the factor of the times; it has no limit.
	AlertVersion AlertKind = "version"
	// AlertRefused: a share of all requests, 0 to 1. It is of the server, so the alert has no model.
	AlertRefused AlertKind = "refused"
)

// Alerts answers GET /api/alerts, each list with the newest first. The stream has an event of the kinds alert and
// alert_ended for each change.
type Alerts struct {
	Open List[Alert] `json:"open"`
	// Past are those that have ended since the server started, at most 50.
	Past List[Alert] `json:"past"`
}

// Alert is one finding about a version of a model, or about the server: then Model is empty.
type Alert struct {
	ID      int64     `json:"id"`
	Kind    AlertKind `json:"kind"`
	Model   string    `json:"model"`
	Version string    `json:"version"`
	SinceMs int64     `json:"sinceMs"`
	// EndMs is 0 while it is open.
	EndMs int64   `json:"endMs"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	// Silenced: the model is, so that nobody is notified.
	Silenced bool `json:"silenced"`
	// Compared is what a comparison of versions found; null for other kinds.
	Compared *Compared `json:"compared"`
}

// Compared is a version beside what served before.
type Compared struct {
	// Before is the version that served before; it may be the same one, before a reload.
	Before    string `json:"before"`
	Slower    bool   `json:"slower"`
	FailsMore bool   `json:"failsMore"`
	// BeforeUs and NowUs are mean times of a request; 0 if they are not known.
	BeforeUs float64 `json:"beforeUs"`
	NowUs    float64 `json:"nowUs"`
	// BeforeFailures and NowFailures are shares of the requests.
	BeforeFailures float64 `json:"beforeFailures"`
	NowFailures    float64 `json:"nowFailures"`
	// BeforeCPU and NowCPU are the share of the machine that was busy; null if it is not known.
	BeforeCPU *float64 `json:"beforeCpu"`
	NowCPU    *float64 `json:"nowCpu"`
}

// AlertRules answers GET /api/models/{name}/alerts, and GET /api/alerts/rules for the server.
type AlertRules struct {
	Rules List[AlertRule] `json:"rules"`
	// SilencedUntilMs: until then nobody is notified; 0: the model is not silenced.
	SilencedUntilMs int64 `json:"silencedUntilMs"`
}

// AlertRule is the rule of one kind.
type AlertRule struct {
	Kind AlertKind `json:"kind"`
	On   bool      `json:"on"`
	// Limit that the user has set; 0: Usual holds.
	Limit float64 `json:"limit"`
	// Usual is the limit that follows from the model's past; null: too little is known, or the kind has no limit.
	Usual *float64 `json:"usual"`
}

// SetAlertRules keeps rules of a model, or of the server. Kinds that are left out are on, with the limit that follows
// from the past.
type SetAlertRules struct {
	Rules           List[SetAlertRule] `json:"rules"`
	SilencedUntilMs int64              `json:"silencedUntilMs"`
}

// SetAlertRule is what the user decides about one kind.
type SetAlertRule struct {
	Kind  AlertKind `json:"kind"`
	On    bool      `json:"on"`
	Limit float64   `json:"limit"`
}

// Webhook answers GET /api/webhook. The secret is never shown.
type Webhook struct {
	// URL to which alerts are posted; empty: to none.
	URL string `json:"url"`
	// Signed: there is a secret, with which messages are signed.
	Signed    bool  `json:"signed"`
	Delivered int64 `json:"delivered"`
	Dropped   int64 `json:"dropped"`
	Waiting   int   `json:"waiting"`
	// Error is why the last message was not delivered; empty if it was.
	Error string `json:"error"`
}

// SetWebhook changes the webhook. An empty URL turns it off.
type SetWebhook struct {
	URL string `json:"url"`
	// Secret is null to keep the present one, and empty for none.
	Secret *string `json:"secret"`
}

// ModelLoads answers GET /api/models/{name}/loads: what was loaded, and how it fared, newest first.
type ModelLoads struct {
	Loads List[ModelLoad] `json:"loads"`
}

// ModelLoad is the time from a load of a version to the next, or to the present.
type ModelLoad struct {
	Version string `json:"version"`
	TMs     int64  `json:"tMs"`
	// EndMs is when the version was loaded again; 0: it was not.
	EndMs int64 `json:"endMs"`
	// Config is the digest of the configuration: equal configurations have equal digests. Empty if it is not known.
	Config string `json:"config"`
	// Files is the digest of the names, sizes and times of the version's files. Empty if it is not known.
	Files string `json:"files"`
	// Revision of config.pbtxt; 0 if it is not known.
	Revision int64   `json:"revision"`
	Requests int64   `json:"requests"`
	Failures int64   `json:"failures"`
	MeanUs   float64 `json:"meanUs"`
	// P50Us and P99Us are null without successful requests.
	P50Us *float64 `json:"p50Us"`
	P99Us *float64 `json:"p99Us"`
	// CPU is the share of the machine that was busy; null if it is not known.
	CPU *float64 `json:"cpu"`
	// MemoryBytes is what the model took; 0 if it is not known.
	MemoryBytes int64 `json:"memoryBytes"`
}
