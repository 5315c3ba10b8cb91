package httpapi

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"nereid/engine/status"
)

// SageMaker makes a server answer as Amazon SageMaker's containers do, in place of the v2 routes: GET /ping, POST
// /invocations for one model, and the multi-model routes below /models. The binary form of a body is told by its content
// type, application/vnd.sagemaker-triton.binary+json;json-header-size=N, both ways.
type SageMaker struct {
	// Model answers /invocations: SAGEMAKER_TRITON_DEFAULT_MODEL_NAME.
	Model string
	// Kind of /invocations, infer, generate or generate_stream: SAGEMAKER_TRITON_INFERENCE_TYPE. "": infer.
	Kind string
	// PingLive: /ping says whether the server lives, not whether it is ready: SAGEMAKER_TRITON_PING_MODE=live.
	PingLive bool
	// Archives are the models of the multi-model routes; nil: there are none.
	Archives Archives
}

// Archives loads models from the folders that SageMaker unpacked their archives to. Safe for concurrent use.
type Archives interface {
	// Load serves the model in the folder url under a name. AlreadyExists: the name is loaded.
	Load(ctx context.Context, name, url string) error
	// Unload takes it out of service. NotFound: it is not loaded.
	Unload(ctx context.Context, name string) error
	// Loaded lists what is loaded, by name.
	Loaded() []Archive
}

// Archive is a model loaded from an archive.
type Archive struct{ Name, URL string }

// VertexAI makes a server answer as Google Vertex AI's containers do, in place of the v2 routes. The binary form of a body
// is told by its content type, application/vnd.vertex-ai-triton.binary+json;json-header-size=N, both ways.
type VertexAI struct {
	// Predict and Health are the paths of the two routes: AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE.
	Predict, Health string
	// Model returns the name of the model that answers predictions, "" if none is known.
	Model func() string
}

const (
	sageMakerType = "application/vnd.sagemaker-triton.binary+json;json-header-size="
	vertexAIType  = "application/vnd.vertex-ai-triton.binary+json;json-header-size="

	targetModelName = "X-Amzn-Sagemaker-Target-Model"
	redirectName    = "X-Vertex-Ai-Triton-Redirect"
)

// binaryType returns the content type that tells of a binary body, "" where a header does.
func (s *Server) binaryType() string {
	switch {
	case s.opt.SageMaker != nil:
		return sageMakerType
	case s.opt.VertexAI != nil:
		return vertexAIType
	}
	return ""
}

// routeOf finds what a request asks for. It may change the request's method: Vertex AI sends only POST.
func (s *Server) routeOf(x *exchange) route {
	switch {
	case s.opt.SageMaker != nil:
		return s.routeSageMaker(x)
	case s.opt.VertexAI != nil:
		return s.routeVertexAI(x)
	}
	path := s.below(x.path)
	if s.opt.V1 && hasPrefix(path, "/v1/models") {
		return matchV1(path)
	}
	return match(path)
}

func (s *Server) routeSageMaker(x *exchange) route {
	o := s.opt.SageMaker
	switch string(x.path) {
	case "/ping":
		if o.PingLive {
			return route{endpoint: serverLive}
		}
		return route{endpoint: serverReady}
	case "/invocations":
		r := route{endpoint: modelInfer, model: []byte(o.Model)}
		switch o.Kind {
		case "generate":
			r.endpoint = modelGenerate
		case "generate_stream":
			r.endpoint = modelGenerateStream
		}
		return r
	case "/models", "/models/":
		switch string(x.method) {
		case "GET":
			return route{endpoint: archiveList}
		case "POST":
			return route{endpoint: archiveLoad}
		}
		return route{endpoint: refused400}
	}
	rest, ok := bytes.CutPrefix(x.path, []byte("/models/"))
	name, action, more := cutSegment(rest)
	switch {
	case !ok || len(name) == 0:
	case x.is("GET") && !more:
		return route{endpoint: archiveGet, extra: name}
	case x.is("DELETE") && !more:
		return route{endpoint: archiveUnload, extra: name}
	case x.is("POST") && more && string(action) == "invoke":
		return s.routeInvoke(name)
	}
	return route{endpoint: refused400}
}

// routeInvoke finds a loaded model; there is no such route for others.
func (s *Server) routeInvoke(name []byte) route {
	if a := s.opt.SageMaker.Archives; a != nil {
		if _, ok := findArchive(a, string(name)); ok {
			return route{endpoint: modelInfer, model: name, archive: true}
		}
	}
	return route{endpoint: refused404}
}

func findArchive(a Archives, name string) (Archive, bool) {
	all := a.Loaded()
	i := slices.IndexFunc(all, func(a Archive) bool { return a.Name == name })
	if i < 0 {
		return Archive{}, false
	}
	return all[i], true
}

func (s *Server) routeVertexAI(x *exchange) route {
	o := s.opt.VertexAI
	switch string(x.path) {
	case o.Health:
		return route{endpoint: serverReady}
	case o.Predict:
	default:
		return route{endpoint: refused400}
	}
	to := x.headers.Peek(redirectName)
	if len(to) == 0 {
		return route{endpoint: modelInfer, model: []byte(o.Model())}
	}
	if !x.is("POST") {
		return route{endpoint: refused405}
	}
	r := match(append([]byte{'/'}, to...))
	if string(to) == "metrics" {
		r = route{endpoint: metricsText}
	}
	switch r.endpoint {
	case modelInfer, repositoryIndex:
	case serverMetadata, serverLive, serverReady, modelMetadata, modelReady, modelConfig, modelStats, allStats, systemShmStatus, cudaShmStatus, metricsText:
		x.method = []byte("GET")
	case systemShmRegister, systemShmUnregister, cudaShmRegister, cudaShmUnregister, repositoryLoad, repositoryUnload:
		// What changes the server needs its own port, as in Triton.
		return route{endpoint: refused403}
	default:
		return route{endpoint: refused400}
	}
	return r
}

// takeContentType reads the length of the JSON part from the content type, where that tells it. A false return: the reply
// is an error already.
func (s *Server) takeContentType(x *exchange) bool {
	want := s.binaryType()
	x.hasHeaderLength, x.headerLength = false, nil
	got := x.headers.Peek("Content-Type")
	i := bytes.Index(got, []byte(want))
	if i < 0 {
		return true
	}
	if i > 0 {
		x.fail(400, typeText, "expect MIME type for binary data starts with '"+want+"', got: "+printable(got))
		return false
	}
	size := got[len(want):]
	if n, err := strconv.ParseUint(view(size), 10, 31); err != nil {
		x.fail(400, typeText, "Unable to parse inference header size, got: "+printable(size))
		return false
	} else if n == 0 {
		size = []byte("0")
	}
	x.headerLength, x.hasHeaderLength = size, true
	return true
}

// serveCloud answers the routes that only SageMaker and Vertex AI have.
func (s *Server) serveCloud(x *exchange) {
	switch x.route.endpoint {
	case refused400, refused403, refused404, refused405:
		s.readAway(x)
		x.empty(map[endpoint]int{refused400: 400, refused403: 403, refused404: 404, refused405: 405}[x.route.endpoint], typeText)
		return
	case metricsText:
		s.readAway(x)
		if s.opt.Metrics == nil {
			x.empty(400, typeText)
			return
		}
		x.bytes(200, typeText, s.opt.Metrics(nil))
		return
	}
	archives := s.opt.SageMaker.Archives
	if archives == nil {
		s.readAway(x)
		x.fail(400, typeText, "models are not loaded from archives here; start the server with --model-control-mode=explicit")
		return
	}
	switch x.route.endpoint {
	case archiveList:
		s.readAway(x)
		b := append([]byte(nil), `{"models":[`...)
		for i, a := range archives.Loaded() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendArchive(b, a)
		}
		x.bytes(200, typeJSON, append(b, ']', '}'))
	case archiveGet:
		s.readAway(x)
		if a, ok := findArchive(archives, string(x.route.extra)); ok {
			x.bytes(200, typeJSON, appendArchive(nil, a))
		} else {
			x.empty(404, typeText)
		}
	case archiveUnload:
		s.readAway(x)
		err := archives.Unload(s.lifetime, string(x.route.extra))
		if status.CodeOf(err) == status.NotFound {
			x.empty(404, typeText)
			return
		}
		s.replyArchive(x, err)
	case archiveLoad:
		s.loadArchive(x, archives)
	}
}

// loadArchive handles POST /models with {"model_name": …, "url": …}.
func (s *Server) loadArchive(x *exchange, archives Archives) {
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		s.replyBodyError(x, err)
		return
	}
	defer buf.Release()
	var name, url string
	err = object(body, func(p *scanner, key []byte) error {
		var to *string
		switch string(key) {
		case "model_name":
			to = &name
		case "url":
			to = &url
		default:
			return p.skip()
		}
		if p.peek() != '"' {
			return status.New(status.InvalidArg, nonString)
		}
		text, err := p.text()
		*to = string(text)
		return err
	})
	if err == nil {
		err = archives.Load(s.lifetime, name, url)
	}
	s.replyArchive(x, err)
}

// replyArchive answers a change with SageMaker's codes: 409 for a model that is there, 507 for want of memory, else 400.
func (s *Server) replyArchive(x *exchange, err error) {
	switch {
	case err == nil:
		x.empty(200, typeJSON)
	case status.CodeOf(err) == status.AlreadyExists:
		x.fail(409, typeJSON, err.Error())
	default:
		x.fail(archiveStatus(err), typeJSON, err.Error())
	}
}

// outOfMemory are words of the frameworks by which SageMaker is told to unload other models.
var outOfMemory = [...]string{"CUDA out of memory", "CUDA_OUT_OF_MEMORY", "out of memory", "Out of memory", "Out Of Memory", "MemoryError", "OutOfMemory", "OOM",
	"Dst tensor is not initialized", "Src tensor is not initialized", "CNMEM_STATUS_OUT_OF_MEMORY", "CUDNN_STATUS_NOT_INITIALIZED",
	"CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED", "ailed to allocate memory", "No space left on device"}

func archiveStatus(err error) int {
	for _, w := range outOfMemory {
		if strings.Contains(err.Error(), w) {
			return 507
		}
	}
	return 400
}

func appendArchive(b []byte, a Archive) []byte {
	b = append(b, `{"modelName":`...)
	b = appendString(b, a.Name)
	b = append(b, `,"modelUrl":`...)
	return append(appendString(b, a.URL), '}')
}
