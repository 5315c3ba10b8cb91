package compat

import (
	"context"
	"slices"
	"strings"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/status"
)

// SageMaker makes a server answer like Amazon SageMaker's containers, instead of the v2 routes: GET /ping, POST
// /invocations for one model, and the multi-model routes below /models. The content type SageMakerBinary marks a body
// in binary form, in requests and replies.
type SageMaker struct {
	// Model answers /invocations: SAGEMAKER_TRITON_DEFAULT_MODEL_NAME.
	Model string
	// Kind of /invocations, infer, generate or generate_stream: SAGEMAKER_TRITON_INFERENCE_TYPE. "": infer.
	Kind string
	// PingLive: /ping answers whether the server is live, not whether it is ready: SAGEMAKER_TRITON_PING_MODE=live.
	PingLive bool
	// Archives are the models of the multi-model routes; nil: there are none.
	Archives Archives
}

// SageMakerBinary is the content type of a binary body, without the length of its JSON part.
const SageMakerBinary = "application/vnd.sagemaker-triton.binary+json;json-header-size="

// Archives loads models from the folders that SageMaker unpacked their archives to. Safe for concurrent use.
type Archives interface {
	// Load serves the model in the folder url under a name. AlreadyExists: the name is loaded.
	Load(ctx context.Context, name, url string) error
	// Unload takes it out of service. NotFound: it is not loaded.
	Unload(ctx context.Context, name string) error
	// Loaded lists the loaded models, by name.
	Loaded() []Archive
}

// Archive is a model loaded from an archive.
type Archive struct{ Name, URL string }

// Find returns a loaded model.
func (o *SageMaker) Find(name string) (a Archive, ok bool) {
	if o.Archives == nil {
		return Archive{}, false
	}
	all := o.Archives.Loaded()
	i := slices.IndexFunc(all, func(a Archive) bool { return a.Name == name })
	if i < 0 {
		return Archive{}, false
	}
	return all[i], true
}

// withoutArchives is the answer of the multi-model routes if there are no archives.
func withoutArchives() Reply {
	return Reply{400, typeText, tensorjson.Error("models are not loaded from archives here; " +
		"start the server with --model-control-mode=explicit")}
}

// List answers GET /models.
func (o *SageMaker) List() Reply {
	if o.Archives == nil {
		return withoutArchives()
	}
	return Reply{200, typeJSON, tensorjson.Object("models", tensorjson.Array(o.Archives.Loaded(), archiveJSON))}
}

// Get answers GET /models/<name>.
func (o *SageMaker) Get(name string) Reply {
	if o.Archives == nil {
		return withoutArchives()
	}
	a, ok := o.Find(name)
	if !ok {
		return Reply{Status: 404, ContentType: typeText}
	}
	return Reply{200, typeJSON, archiveJSON(a)}
}

// Load answers POST /models with {"model_name": …, "url": …}.
func (o *SageMaker) Load(ctx context.Context, body []byte) Reply {
	if o.Archives == nil {
		return withoutArchives()
	}
	var name, url string
	var err error
	if !tensorjson.Blank(body) {
		err = tensorjson.ReadObject(body, func(s *tensorjson.Scanner, key []byte) (err error) {
			switch string(key) {
			case "model_name":
				name, err = s.String()
			case "url":
				url, err = s.String()
			default:
				err = s.Skip()
			}
			return err
		})
	}
	if err == nil {
		err = o.Archives.Load(ctx, name, url)
	}
	return changed(err)
}

// Unload answers DELETE /models/<name>.
func (o *SageMaker) Unload(ctx context.Context, name string) Reply {
	if o.Archives == nil {
		return withoutArchives()
	}
	err := o.Archives.Unload(ctx, name)
	if status.CodeOf(err) == status.NotFound {
		return Reply{Status: 404, ContentType: typeText}
	}
	return changed(err)
}

// changed answers a load or an unload.
func changed(err error) Reply {
	switch {
	case err == nil:
		return Reply{Status: 200, ContentType: typeJSON}
	case status.CodeOf(err) == status.AlreadyExists:
		return Reply{409, typeJSON, tensorjson.Error(err.Error())}
	}
	return Reply{ArchiveStatus(err), typeJSON, tensorjson.Error(err.Error())}
}

// outOfMemory are texts in errors of the frameworks. They make SageMaker unload other models.
var outOfMemory = [...]string{
	"CUDA out of memory", "CUDA_OUT_OF_MEMORY", "out of memory", "Out of memory", "Out Of Memory", "MemoryError",
	"OutOfMemory", "OOM", "Dst tensor is not initialized", "Src tensor is not initialized",
	"CNMEM_STATUS_OUT_OF_MEMORY", "CUDNN_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_ALLOC_FAILED",
	"CUBLAS_STATUS_NOT_INITIALIZED", "ailed to allocate memory", "No space left on device",
}

// ArchiveStatus is the HTTP status of an error of a model from an archive: 507 if memory was short, otherwise 400.
func ArchiveStatus(err error) int {
	text := err.Error()
	if slices.ContainsFunc(outOfMemory[:], func(w string) bool { return strings.Contains(text, w) }) {
		return 507
	}
	return 400
}

func archiveJSON(a Archive) tensorjson.JSON {
	return tensorjson.Object("modelName", a.Name, "modelUrl", a.URL)
}
