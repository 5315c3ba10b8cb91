package api

// Gallery lists models, and where they come from.
type Gallery struct {
	Models List[GalleryModel] `json:"models"`
}

// GalleryModel is a model of the gallery.
type GalleryModel struct {
	Name string `json:"name"`
	// For is what the model does, in one line.
	For string `json:"for"`
	// License is an SPDX identifier.
	License string `json:"license"`
	// Bytes is the size of the model's file.
	Bytes int64 `json:"bytes"`
	// Source is what StartDownload takes.
	Source string `json:"source"`
	// Tried reports whether the model was fetched, served, and compared with ONNX Runtime.
	Tried bool `json:"tried"`
}

// StartDownload names what to fetch: a source as nereid get takes it.
type StartDownload struct {
	Source string `json:"source"`
}

// Download is a source that is fetched into a folder of the server. Nothing of it runs. Its models are then imported
// by their paths. The server keeps the newest download that has ended, until it stops.
type Download struct {
	ID     string        `json:"id"`
	Source string        `json:"source"`
	State  DownloadState `json:"state"`
	// File is what is fetched now, "" if that is not known.
	File string `json:"file"`
	// HaveBytes of WholeBytes are there. WholeBytes is -1 if it is not known.
	HaveBytes  int64 `json:"haveBytes"`
	WholeBytes int64 `json:"wholeBytes"`
	// Reason, of failed.
	Reason string `json:"reason"`
	// Models, of done.
	Models List[DownloadedModel] `json:"models"`
}

// DownloadState is the state of a Download.
type DownloadState string

// The states.
const (
	DownloadRunning DownloadState = "running"
	DownloadDone    DownloadState = "done"
	DownloadFailed  DownloadState = "failed"
)

// DownloadedModel is a model folder that was made from a download.
type DownloadedModel struct {
	Name string `json:"name"`
	// Path is the folder, for ImportCreate.
	Path string `json:"path"`
	// Notes are what the user should know.
	Notes List[string] `json:"notes"`
}

// Conversion is a model that the server makes of another one, as nereid convert does. It is made (POST), gets files if
// it is not of a model of the repository (PUT), and is started. Its model is then imported by its path. The server
// keeps the newest conversion that has ended, until it stops.
type Conversion struct {
	ID    string          `json:"id"`
	State ConversionState `json:"state"`
	// Step is what the installer or the converter printed last, of running.
	Step string `json:"step"`
	// Reason, of failed.
	Reason string `json:"reason"`
	// Report and Path, of done. Path is the model folder, for ImportCreate.
	Report *ParityReport `json:"report"`
	Path   string        `json:"path"`
}

// ConversionState is the state of a Conversion.
type ConversionState string

// The states.
const (
	ConversionOpen    ConversionState = "open" // it takes files
	ConversionRunning ConversionState = "running"
	ConversionDone    ConversionState = "done"
	ConversionFailed  ConversionState = "failed"
)

// ConversionTarget is what is made.
type ConversionTarget string

// The targets. All but ConvertToONNX are of ONNX models.
const (
	ConvertToONNX       ConversionTarget = "onnx"
	ConvertToFP16       ConversionTarget = "fp16"
	ConvertToINT8       ConversionTarget = "int8"
	ConvertToSimplified ConversionTarget = "simplify"
	ConvertToExternal   ConversionTarget = "external-data"
)

// StartConversion starts a Conversion.
type StartConversion struct {
	// Model is a model of the repository, whose newest version is taken; "": Source is taken.
	Model string `json:"model"`
	// Source is a file or folder that was put, by its path; or torchvision:NAME or timm:NAME.
	Source string `json:"source"`
	// Name is that of the new model; "": the converter chooses it.
	Name   string           `json:"name"`
	Target ConversionTarget `json:"target"`
	// Inputs is a file or folder that was put, with rows to compare with and to calibrate with; "": they are made.
	Inputs string `json:"inputs"`
	// SavedRequests takes the saved requests of Model as inputs.
	SavedRequests bool `json:"savedRequests"`
	// CapturedRequests takes the captured requests of Model as inputs.
	CapturedRequests bool `json:"capturedRequests"`
	// Shapes of inputs and Class are as --shape and --class of nereid convert. A file of Class is one that was put.
	Shapes List[string] `json:"shapes"`
	Class  string       `json:"class"`
	// Trust lets code of the model run.
	Trust bool `json:"trust"`
}

// ParityReport compares a model that was made with the one before.
type ParityReport struct {
	// Model is the name of the new model.
	Model string `json:"model"`
	// Framework, of the model before, with its version.
	Framework string `json:"framework"`
	// Rows were answered by both models. Made: they were made; else they were given.
	Rows    int                `json:"rows"`
	Made    bool               `json:"made"`
	Outputs List[ParityOutput] `json:"outputs"`
	// Differs says which output differs by more than the tolerance; "": none does.
	Differs     string `json:"differs"`
	BytesBefore int64  `json:"bytesBefore"`
	BytesAfter  int64  `json:"bytesAfter"`
	// MsBefore and MsAfter are the times of one row, by one thread of this machine's CPU.
	MsBefore float64 `json:"msBefore"`
	MsAfter  float64 `json:"msAfter"`
	// Provider is ONNX Runtime's, by which the new model answered.
	Provider string `json:"provider"`
	// Low: the new model has low precision. Error is then a share of the output's largest value.
	Low bool `json:"low"`
}

// ParityOutput compares an output of the new model with the answer of the one before.
type ParityOutput struct {
	Output string `json:"output"`
	Rows   int    `json:"rows"`
	// MaxAbs and MaxRel are the largest differences; null for labels.
	MaxAbs *float64 `json:"maxAbs"`
	MaxRel *float64 `json:"maxRel"`
	// Error is the largest: absolute for numbers below 1, else relative; null for labels.
	Error *float64 `json:"error"`
	// Same counts the rows with the same label, or with the same highest number; null where there is none.
	Same *int `json:"same"`
	// SameFive counts the rows with the same five highest numbers; null where there are less than ten.
	SameFive *int `json:"sameFive"`
}
