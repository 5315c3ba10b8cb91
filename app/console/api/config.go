package api

// Fault is one finding in a config.pbtxt text. Lines and columns start at 1; columns count Unicode code
// points; the end is exclusive. A fault without a place (a field that is missing) has line 0.
type Fault struct {
	Line     int      `json:"line"`
	Col      int      `json:"col"`
	EndLine  int      `json:"endLine"`
	EndCol   int      `json:"endCol"`
	Severity Severity `json:"severity"`
	// Message says what, and how to mend it.
	Message string `json:"message"`
	// Field is the path in the configuration, such as "input[0].dims"; may be empty.
	Field string    `json:"field"`
	Fixes List[Fix] `json:"fixes"`
}

// Fix is a change that mends a fault.
type Fix struct {
	// Label for a button: `set dims to [ 3, 224, 224 ]`.
	Label string     `json:"label"`
	Edits List[Edit] `json:"edits"`
}

// Edit replaces a range of the text. Places are as in Fault, all of them in the text that was checked.
type Edit struct {
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"endLine"`
	EndCol  int    `json:"endCol"`
	Text    string `json:"text"`
}

// CheckRequest asks for the faults of a configuration text.
type CheckRequest struct {
	// Model whose files the text is checked against; empty: only the text itself.
	Model string `json:"model,omitempty"`
	// Import whose files the text is checked against, by id.
	Import string `json:"import,omitempty"`
	Text   string `json:"text"`
}

// CheckResult lists every fault at once.
type CheckResult struct {
	Faults List[Fault] `json:"faults"`
	// Completed is the configuration with what the model file and the defaults add; empty when there are errors.
	Completed string `json:"completed"`
	// Groups are the instance groups as the text has them, before defaults.
	Groups List[InstanceGroup] `json:"groups"`
}

// InstanceGroup is one entry of instance_group, as a form edits it.
type InstanceGroup struct {
	Name string `json:"name"`
	// Kind is KIND_AUTO, KIND_CPU, KIND_GPU or KIND_MODEL.
	Kind string `json:"kind"`
	// Count 0: the backend's default.
	Count      int       `json:"count"`
	GPUs       List[int] `json:"gpus"`
	HostPolicy string    `json:"hostPolicy"`
	Passive    bool      `json:"passive"`
	// Other says that the group has fields besides these (a rate limiter, profiles, secondary devices), which the
	// form would lose.
	Other bool `json:"other"`
}

// ConfigFields describes the configuration language, for completion and help: the message and enum types
// reachable from Root.
type ConfigFields struct {
	// Root is the name of the outermost message, "ModelConfig".
	Root     string              `json:"root"`
	Messages List[ConfigMessage] `json:"messages"`
	Enums    List[ConfigEnum]    `json:"enums"`
}

// ConfigMessage is one message type.
type ConfigMessage struct {
	// Name relative to the package: "ModelInput", "ModelOptimizationPolicy.Graph".
	Name   string            `json:"name"`
	Doc    string            `json:"doc"`
	Fields List[ConfigField] `json:"fields"`
}

// ConfigField is one field of a message.
type ConfigField struct {
	Name string `json:"name"`
	// Type is string, bool, bytes, int32, int64, uint32, uint64, float, double, or the name of a message or enum.
	Type string          `json:"type"`
	Kind ConfigFieldKind `json:"kind"`
	// Repeated fields may occur many times or take a [ ] list. A map is repeated with key and value inside.
	Repeated bool `json:"repeated"`
	// KeyType of a map, else empty. Type is then the value's type.
	KeyType string `json:"keyType"`
	// Oneof is the name of the group of which only one field may be set; else empty.
	Oneof string `json:"oneof"`
	// Default in words or as pbtxt; empty when there is none.
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Support says where this server differs: empty for working, else a sentence.
	Support string `json:"support"`
}

// ConfigFieldKind tells what a field's type is.
type ConfigFieldKind string

// The kinds.
const (
	KindScalar  ConfigFieldKind = "scalar"
	KindEnum    ConfigFieldKind = "enum"
	KindMessage ConfigFieldKind = "message"
	KindMap     ConfigFieldKind = "map"
)

// ConfigEnum is one enum type.
type ConfigEnum struct {
	Name   string                `json:"name"`
	Doc    string                `json:"doc"`
	Values List[ConfigEnumValue] `json:"values"`
}

// ConfigEnumValue is one value of an enum.
type ConfigEnumValue struct {
	Name   string `json:"name"`
	Number int32  `json:"number"`
	Doc    string `json:"doc"`
}

// SaveConfig writes config.pbtxt and reloads the model.
type SaveConfig struct {
	Text string `json:"text"`
	// BaseRevision is ModelDetail.Revision that the edit began from; when the newest differs: 409 conflict.
	BaseRevision int64 `json:"baseRevision"`
}

// SaveOutcome says how far a save got.
type SaveOutcome string

// The outcomes.
const (
	// SaveLoaded: the file is written and the new configuration serves.
	SaveLoaded SaveOutcome = "loaded"
	// SaveSaved: the file is written; the model is not loaded, so nothing was reloaded.
	SaveSaved SaveOutcome = "saved"
	// SaveFailed: the file is written, the load failed (Reason); what served before still does, if anything did.
	SaveFailed SaveOutcome = "failed"
)

// SaveResult answers a save or a restore.
type SaveResult struct {
	Outcome SaveOutcome `json:"outcome"`
	// Reason in full, of failed.
	Reason string `json:"reason"`
	// KeepsServing: of failed, the previous configuration still answers requests.
	KeepsServing bool     `json:"keepsServing"`
	Revision     Revision `json:"revision"`
	// LoadMs is how long the reload took.
	LoadMs float64 `json:"loadMs"`
}

// Revision is one change of a model's configuration file.
type Revision struct {
	ID    int64  `json:"id"`
	Model string `json:"model"`
	TMs   int64  `json:"tMs"`
	// Source is who changed it: "console", "import", "disk" (the file was changed outside), "delete" (the model went
	// to the trash), "restore", "tune" (a tuned configuration was applied, here or by nereid tune --apply); or what
	// was changed: "versions" (one was loaded or unloaded alone), "override" (a load request brought a
	// configuration).
	Source string `json:"source"`
	// Restores is the id of the revision that this one brings back; 0 for others.
	Restores int64       `json:"restores"`
	Outcome  SaveOutcome `json:"outcome"`
	Reason   string      `json:"reason"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// Revisions answers GET …/revisions, newest first.
type Revisions struct {
	Revisions List[Revision] `json:"revisions"`
}

// RevisionFull is a revision with the full text before and after.
type RevisionFull struct {
	Revision
	Before string `json:"before"`
	After  string `json:"after"`
}

// RestoreRequest brings back the text of a revision: a new revision with the old content, and a reload.
type RestoreRequest struct {
	// BaseRevision as in SaveConfig.
	BaseRevision int64 `json:"baseRevision"`
	// Before takes the text from before the revision (undo it), else the text after it (go back to it).
	Before bool `json:"before"`
}
