package api

// Fault is a fault in the text of a config.pbtxt. Lines and columns start at 1. Columns count Unicode code points. The
// end is exclusive. A fault without a place, such as a missing field, has line 0.
type Fault struct {
	Line     int      `json:"line"`
	Col      int      `json:"col"`
	EndLine  int      `json:"endLine"`
	EndCol   int      `json:"endCol"`
	Severity Severity `json:"severity"`
	// Message is what is wrong, and Advice how to correct it; Advice may be empty.
	Message string `json:"message"`
	Advice  string `json:"advice"`
	// Field is the path in the configuration, such as "input[0].dims"; may be empty.
	Field string    `json:"field"`
	Fixes List[Fix] `json:"fixes"`
}

// Text returns what is wrong and how to correct it.
func (f *Fault) Text() string {
	if f.Advice == "" {
		return f.Message
	}
	return f.Message + "; " + f.Advice
}

// Fix is a change of the text that corrects a fault.
type Fix struct {
	// Label of the button, such as `set dims to [ 3, 224, 224 ]`.
	Label string     `json:"label"`
	Edits List[Edit] `json:"edits"`
}

// Edit replaces a range of the text that was checked. Places are as in Fault.
type Edit struct {
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"endLine"`
	EndCol  int    `json:"endCol"`
	Text    string `json:"text"`
}

// CheckRequest asks for the faults of a configuration text.
type CheckRequest struct {
	// Model is the model whose files the text must fit; empty: only the text is checked.
	Model string `json:"model,omitempty"`
	// Import is the ID of an import whose files the text must fit.
	Import string `json:"import,omitempty"`
	Text   string `json:"text"`
}

// CheckResult lists all faults.
type CheckResult struct {
	Faults List[Fault] `json:"faults"`
	// Completed is the configuration with the additions from the model file and the defaults; empty if there are
	// errors.
	Completed string `json:"completed"`
	// Groups are the instance groups of the text, without defaults.
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
	// Other: the group also has fields that the form does not know and would lose, such as a rate limiter.
	Other bool `json:"other"`
}

// ConfigFields describes the fields of a configuration, for completion and help: the message and enum types that are
// reachable from Root.
type ConfigFields struct {
	// Root is the name of the outermost message, "ModelConfig".
	Root     string              `json:"root"`
	Messages List[ConfigMessage] `json:"messages"`
	Enums    List[ConfigEnum]    `json:"enums"`
}

// ConfigMessage is one message type.
type ConfigMessage struct {
	// Name without the package, such as "ModelInput" or "ModelOptimizationPolicy.Graph".
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
	// Repeated: the field may occur many times or have a list in [ ]. A map is a repeated message with key and value.
	Repeated bool `json:"repeated"`
	// KeyType is the type of a map's keys, otherwise empty. Type is the type of its values.
	KeyType string `json:"keyType"`
	// Oneof is the name of a group of which only one field may be set; otherwise empty.
	Oneof string `json:"oneof"`
	// Default is in words or in the form of config.pbtxt; empty if there is none.
	Default string `json:"default"`
	Doc     string `json:"doc"`
	// Support is how this server differs from Triton; empty if it does not.
	Support string `json:"support"`
}

// ConfigFieldKind is the kind of a field's type.
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
	// BaseRevision is the ModelDetail.Revision from which the edit began. If it is not the newest: 409 conflict.
	BaseRevision int64 `json:"baseRevision"`
	// BaseText is the text from which the edit began, "" if there was no file. If it is given and the file has another
	// one: 409 conflict. It guards the first edit, before which there is no revision.
	BaseText *string `json:"baseText,omitempty"`
	// ConsentCode: the user agreed that what the text newly names runs as code. Without it, such a text is 412 consent.
	ConsentCode bool `json:"consentCode,omitempty"`
	// OnlyIfLoads: if the model does not load with the text, the file is put back as it was.
	OnlyIfLoads bool `json:"onlyIfLoads,omitempty"`
}

// SaveOutcome is the result of a save.
type SaveOutcome string

// The outcomes.
const (
	// SaveLoaded: the file is written and the new configuration is in service.
	SaveLoaded SaveOutcome = "loaded"
	// SaveSaved: the file is written. The model is not loaded, so it was not reloaded.
	SaveSaved SaveOutcome = "saved"
	// SaveFailed: the file is written, but the load failed (Reason). The previous version stays in service, if any.
	SaveFailed SaveOutcome = "failed"
	// SaveUndone: the load failed (Reason), and the file was put back as it was, as OnlyIfLoads asks.
	SaveUndone SaveOutcome = "undone"
)

// SaveResult answers a save or a restore.
type SaveResult struct {
	Outcome SaveOutcome `json:"outcome"`
	// Reason of a failed save.
	Reason string `json:"reason"`
	// KeepsServing: the save failed and the previous configuration stays in service.
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
	// Source is what changed the file: "console", "import", "disk" (a change outside of the console), "delete" (the
	// model was moved to the trash), "restore", or "tune" (a tuned configuration was applied, here or by nereid tune
	// --apply). For "versions" (a version was loaded or unloaded alone) and "override" (a load request had a
	// configuration), the file was not changed.
	Source string `json:"source"`
	// Restores is the ID of the revision that this one restores; 0 for others.
	Restores int64       `json:"restores"`
	Outcome  SaveOutcome `json:"outcome"`
	Reason   string      `json:"reason"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// Revisions answers GET …/revisions, newest first: those before the query's before (an ID; absent: all), at most limit
// (1 to 999, default 100). The server keeps 1,000 revisions and 256 MiB of texts for each model.
type Revisions struct {
	Revisions List[Revision] `json:"revisions"`
	// More: there are older ones.
	More bool `json:"more"`
}

// RevisionFull is a revision with the full text before and after.
type RevisionFull struct {
	Revision
	Before string `json:"before"`
	After  string `json:"after"`
}

// RestoreRequest restores the text of a revision. This makes a new revision and reloads the model.
type RestoreRequest struct {
	// BaseRevision as in SaveConfig.
	BaseRevision int64 `json:"baseRevision"`
	// Before: the text before the revision is restored, which undoes it. Otherwise the text after it is.
	Before bool `json:"before"`
	// ConsentCode as in SaveConfig.
	ConsentCode bool `json:"consentCode,omitempty"`
}
