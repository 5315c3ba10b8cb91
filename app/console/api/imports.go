package api

// Import is a model on its way into a repository. The steps:
//
//  1. POST /api/imports makes it: from a path or a sample (answers staged), or empty for an upload (answers
//     uploading).
//  2. Upload only: PUT each file, in any number of requests at once, then POST …/analyze. A single .onnx file,
//     a single zip and a folder tree are uploaded the same way; the paths distinguish them:
//     "model.onnx", "bundle.zip", "digits/1/model.onnx".
//  3. PUT …/config as often as wanted: name, repository and configuration are checked again.
//  4. POST …/commit copies it into the repository and loads it. Progress comes by the stream's topic import;
//     the last state is loaded or failed. After failed the repository is as before, and the import can be changed
//     and committed again.
//
// An import that is not used for an hour is removed.
type Import struct {
	ID     string       `json:"id"`
	State  ImportState  `json:"state"`
	Origin ImportOrigin `json:"origin"`
	Kind   ImportKind   `json:"kind"`
	// Name of the model: suggested from the file or folder, then as the user set it.
	Name string `json:"name"`
	// Repository is the path of the repository for the model.
	Repository string `json:"repository"`
	// Source is the dropped file or folder, for display.
	Source   string       `json:"source"`
	Files    List[File]   `json:"files"`
	Versions List[string] `json:"versions"`
	Backend  string       `json:"backend"`
	// MaxBatchSize that the configuration below has.
	MaxBatchSize int          `json:"maxBatchSize"`
	Inputs       List[Tensor] `json:"inputs"`
	Outputs      List[Tensor] `json:"outputs"`
	// Config is the text that will be config.pbtxt.
	Config string `json:"config"`
	// ConfigGenerated: Config was made from the model file, not found beside it.
	ConfigGenerated bool        `json:"configGenerated"`
	Faults          List[Fault] `json:"faults"`
	// Code lists what will run as code when the model is loaded with Config, each path once; then commit needs
	// consentCode. What is not in the model, such as a library of the machine, is under the path of the configuration
	// that names it.
	Code List[CodeFile] `json:"code"`
	// Exists: a model of that name is in the repository already; commit needs replace.
	Exists bool `json:"exists"`
	// Step is what a committing import is doing: "copy", "load", "warmup".
	Step string `json:"step"`
	// Progress of that step, 0..1; -1 when unknown.
	Progress float64 `json:"progress"`
	// Reason in full, of failed.
	Reason string `json:"reason"`
	// LoadMs is how long commit took to READY, of loaded.
	LoadMs float64 `json:"loadMs"`
	// More has the IDs of the imports of the other models, if several came together.
	More List[string] `json:"more"`
}

// ImportState is a step in the life of an Import.
type ImportState string

// The states.
const (
	ImportUploading  ImportState = "uploading"
	ImportStaged     ImportState = "staged"
	ImportCommitting ImportState = "committing"
	ImportLoaded     ImportState = "loaded"
	ImportFailed     ImportState = "failed"
)

// ImportOrigin says how the model came in.
type ImportOrigin string

// The origins. A drop on the desktop window is an ImportPath: the page asks for it.
const (
	ImportUpload ImportOrigin = "upload"
	ImportPath   ImportOrigin = "path"
)

// ImportKind is what was dropped.
type ImportKind string

// The kinds. ImportUnknown is for an import that is not analysed yet.
const (
	ImportUnknown ImportKind = ""
	ImportONNX    ImportKind = "onnx"   // one ONNX file (with its external data files, if any)
	ImportFolder  ImportKind = "folder" // a model folder: versions, perhaps a config.pbtxt
	ImportZip     ImportKind = "zip"    // a zip of a model folder or of one ONNX file
)

// CodeFile is a file of an import that runs as code, or a configuration that names something outside.
type CodeFile struct {
	Path string `json:"path"`
	// Why, in words: "a Python model", "a pickle: unpacking it runs code".
	Why string `json:"why"`
}

// ImportCreate makes an import.
type ImportCreate struct {
	// Path of a file or folder on the server's machine; empty for an upload.
	Path string `json:"path,omitempty"`
	// Sample is the name of a sample model in the program, for the first steps; the answer is staged.
	Sample string `json:"sample,omitempty"`
	// Source names the dropped file or folder of an upload, for the suggestion of a name.
	Source string `json:"source,omitempty"`
	// TotalBytes announced by an upload, to refuse at once what does not fit; 0: unknown.
	TotalBytes int64 `json:"totalBytes,omitempty"`
}

// ImportConfig changes a staged import. Empty fields stay as they are.
type ImportConfig struct {
	Name       string `json:"name,omitempty"`
	Repository string `json:"repository,omitempty"`
	Config     string `json:"config,omitempty"`
}

// ImportCommit starts the copy and the load.
type ImportCommit struct {
	// ConsentCode: the user agreed that the files in Import.Code run.
	ConsentCode bool `json:"consentCode"`
	// Replace a model of the same name; its folder goes to the trash.
	Replace bool `json:"replace"`
}
