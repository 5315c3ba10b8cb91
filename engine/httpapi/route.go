package httpapi

import "nereid/engine/restrict"

// Group is a set of routes that access can be granted to.
type Group = restrict.Group

// The groups. Unknown stands for paths that are no route.
const (
	Unknown         = restrict.Unknown
	Health          = restrict.Health
	Metadata        = restrict.Metadata
	Inference       = restrict.Inference
	SharedMemory    = restrict.SharedMemory
	ModelConfig     = restrict.ModelConfig
	ModelRepository = restrict.ModelRepository
	Statistics      = restrict.Statistics
	Trace           = restrict.Trace
	Logging         = restrict.Logging
)

// endpoint is what a path asks for.
type endpoint uint8

const (
	noEndpoint endpoint = iota
	serverMetadata
	serverLive
	serverReady
	modelList
	modelMetadata
	modelReady
	modelConfig
	modelStats
	allStats
	modelInfer
	modelGenerate
	modelGenerateStream
	modelTrace
	repositoryIndex
	repositoryLoad
	repositoryUnload
	traceSetting
	logSetting
	systemShmStatus
	systemShmRegister
	systemShmUnregister
	cudaShmStatus
	cudaShmRegister
	cudaShmUnregister
	// Of the v1 protocol only.
	v1List
	v1Model
	v1Predict
	// Of SageMaker and Vertex AI only.
	archiveList
	archiveGet
	archiveLoad
	archiveUnload
	metricsText
	refused400
	refused403
	refused404
	refused405
)

// route is a matched path. Its slices are views of the path, as sent.
type route struct {
	endpoint endpoint
	model    []byte
	version  []byte // digits, or empty
	extra    []byte // the repository, the shared memory region or the archive, if the path names one
	archive  bool   // the model is one of SageMaker's: errors have its codes
}

var groups = [...]Group{
	noEndpoint: Unknown, serverMetadata: Metadata, serverLive: Health, serverReady: Health, modelMetadata: Metadata,
	modelList:  ModelRepository,
	modelReady: Health, modelConfig: ModelConfig, modelStats: Statistics, allStats: Statistics, modelInfer: Inference,
	modelGenerate: Inference, modelGenerateStream: Inference, modelTrace: Trace, repositoryIndex: ModelRepository,
	repositoryLoad: ModelRepository, repositoryUnload: ModelRepository, traceSetting: Trace, logSetting: Logging,
	systemShmStatus: SharedMemory, systemShmRegister: SharedMemory, systemShmUnregister: SharedMemory,
	cudaShmStatus: SharedMemory, cudaShmRegister: SharedMemory, cudaShmUnregister: SharedMemory,
	v1List: ModelRepository, v1Model: Metadata, v1Predict: Inference,
	archiveList: ModelRepository, archiveGet: ModelRepository, archiveLoad: ModelRepository, archiveUnload: ModelRepository,
	metricsText: Statistics, refused400: Unknown, refused403: Unknown, refused404: Unknown, refused405: Unknown,
}

func (e endpoint) group() Group { return groups[e] }

// cutSegment returns what is before the next slash and what is behind it; more tells whether there was one.
func cutSegment(p []byte) (segment, rest []byte, more bool) {
	for i, c := range p {
		if c == '/' {
			return p[:i], p[i+1:], true
		}
	}
	return p, nil, false
}

// match finds the route of a path below the base path. Nothing is normalised: "/v2/" and "//v2" are no routes.
func match(path []byte) route {
	if !hasPrefix(path, "/v2") {
		return route{}
	}
	if path = path[3:]; len(path) == 0 {
		return route{endpoint: serverMetadata}
	}
	if path[0] != '/' {
		return route{}
	}
	first, rest, more := cutSegment(path[1:])
	switch string(first) {
	case "models":
		if !more {
			return route{endpoint: modelList}
		}
		return matchModel(rest)
	case "repository":
		return matchRepository(rest)
	case "health":
		switch string(rest) {
		case "live":
			return route{endpoint: serverLive}
		case "ready":
			return route{endpoint: serverReady}
		}
	case "trace":
		if string(rest) == "setting" {
			return route{endpoint: traceSetting}
		}
	case "logging":
		if !more {
			return route{endpoint: logSetting}
		}
	case "systemsharedmemory":
		return matchSharedMemory(rest, systemShmStatus)
	case "cudasharedmemory":
		return matchSharedMemory(rest, cudaShmStatus)
	}
	return route{}
}

// matchModel matches what stands behind /v2/models/.
func matchModel(path []byte) route {
	model, rest, more := cutSegment(path)
	if len(model) == 0 {
		return route{}
	}
	r := route{endpoint: modelMetadata, model: model}
	if !more {
		if string(model) == "stats" {
			return route{endpoint: allStats}
		}
		return r
	}
	if hasPrefix(rest, "versions/") {
		if r.version, rest, more = cutSegment(rest[len("versions/"):]); len(r.version) == 0 {
			return route{}
		}
		for _, c := range r.version {
			if c < '0' || c > '9' {
				return route{}
			}
		}
		if !more {
			return r
		}
	}
	switch string(rest) {
	case "infer":
		r.endpoint = modelInfer
	case "ready":
		r.endpoint = modelReady
	case "config":
		r.endpoint = modelConfig
	case "stats":
		r.endpoint = modelStats
	case "generate":
		r.endpoint = modelGenerate
	case "generate_stream":
		r.endpoint = modelGenerateStream
	case "trace/setting":
		if len(r.version) > 0 {
			return route{}
		}
		r.endpoint = modelTrace
	default:
		return route{}
	}
	return r
}

// matchRepository matches what stands behind /v2/repository/.
func matchRepository(path []byte) route {
	if string(path) == "index" {
		return route{endpoint: repositoryIndex}
	}
	var r route
	if !hasPrefix(path, "models/") {
		more := false
		if r.extra, path, more = cutSegment(path); len(r.extra) == 0 || !more {
			return route{}
		}
		if string(path) == "index" {
			r.endpoint = repositoryIndex
			return r
		}
		if !hasPrefix(path, "models/") {
			return route{}
		}
	}
	var action []byte
	if r.model, action, _ = cutSegment(path[len("models/"):]); len(r.model) == 0 {
		return route{}
	}
	switch string(action) {
	case "load":
		r.endpoint = repositoryLoad
	case "unload":
		r.endpoint = repositoryUnload
	default:
		return route{}
	}
	return r
}

// matchSharedMemory matches what stands behind /v2/systemsharedmemory/ or its CUDA twin; status is the first of the
// kind's three endpoints.
func matchSharedMemory(path []byte, status endpoint) route {
	var r route
	if hasPrefix(path, "region/") {
		more := false
		if r.extra, path, more = cutSegment(path[len("region/"):]); len(r.extra) == 0 || !more {
			return route{}
		}
	}
	switch string(path) {
	case "status":
		r.endpoint = status
	case "register":
		r.endpoint = status + 1
	case "unregister":
		r.endpoint = status + 2
	}
	return r
}

// unescape decodes the %XX of a path segment; without any it returns the segment itself. ok is false for a bad escape.
func unescape(segment []byte) (name []byte, ok bool) {
	at := 0
	for at < len(segment) && segment[at] != '%' {
		at++
	}
	if at == len(segment) {
		return segment, true
	}
	name = append(name, segment[:at]...)
	for i := at; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			high, low := 16, 16
			if i+2 < len(segment) {
				high, low = hexValue(segment[i+1]), hexValue(segment[i+2])
			}
			if high > 15 || low > 15 {
				return nil, false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		name = append(name, c)
	}
	return name, true
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 16
}
