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
