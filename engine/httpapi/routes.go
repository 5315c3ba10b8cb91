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

// route is one line of the table.
type route struct {
	// pattern is the path: {model}, {version}, which is digits, and {name} stand for one segment each; a part in
	// brackets may be missing.
	pattern string
	method  string // "": any
	group   Group
	// errorType is the content type of errors.
	errorType string
	// handle answers a request. A returned error becomes the reply.
	handle handler
}

type handler func(s *Server, x *exchange) error

// The routes of the v2 protocol and of Triton's extensions.
var v2Routes = []route{
	{"/v2", "GET", Metadata, typeJSON, serverMetadata},
	{"/v2/health/live", "GET", Health, typeText, serverLive},
	{"/v2/health/ready", "GET", Health, typeText, serverReady},

	{"/v2/models", "GET", ModelRepository, typeJSON, modelList},
	{"/v2/models/stats", "GET", Statistics, typeJSON, allStatistics},
	{"/v2/models/{model}[/versions/{version}]", "GET", Metadata, typeJSON, modelMetadata},
	{"/v2/models/{model}[/versions/{version}]/ready", "GET", Health, typeText, modelReady},
	{"/v2/models/{model}[/versions/{version}]/config", "GET", ModelConfig, typeJSON, modelConfig},
	{"/v2/models/{model}[/versions/{version}]/stats", "GET", Statistics, typeJSON, modelStatistics},

	{"/v2/models/{model}[/versions/{version}]/infer", "POST", Inference, typeText, inferRoute},
	{"/v2/models/{model}[/versions/{version}]/generate", "POST", Inference, typeJSON, generate},
	{"/v2/models/{model}[/versions/{version}]/generate_stream", "POST", Inference, typeJSON, generateStream},

	{"/v2/repository[/{name}]/index", "POST", ModelRepository, typeJSON, repositoryIndex},
	{"/v2/repository[/{name}]/models/{model}/load", "POST", ModelRepository, typeJSON, loadModel},
	{"/v2/repository[/{name}]/models/{model}/unload", "POST", ModelRepository, typeJSON, unloadModel},

	{"/v2/models/{model}/trace/setting", "GET", Trace, typeJSON, traceSettings},
	{"/v2/models/{model}/trace/setting", "POST", Trace, typeJSON, traceSettings},
	{"/v2/trace/setting", "GET", Trace, typeJSON, traceSettings},
	{"/v2/trace/setting", "POST", Trace, typeJSON, traceSettings},
	{"/v2/logging", "GET", Logging, typeJSON, logSettings},
	{"/v2/logging", "POST", Logging, typeJSON, logSettings},

	{"/v2/systemsharedmemory[/region/{name}]/status", "GET", SharedMemory, typeJSON, systemRegions.status},
	{"/v2/systemsharedmemory[/region/{name}]/register", "POST", SharedMemory, typeJSON, systemRegions.register},
	{"/v2/systemsharedmemory[/region/{name}]/unregister", "POST", SharedMemory, typeJSON, systemRegions.unregister},
	{"/v2/cudasharedmemory[/region/{name}]/status", "GET", SharedMemory, typeJSON, cudaRegions.status},
	{"/v2/cudasharedmemory[/region/{name}]/register", "POST", SharedMemory, typeJSON, cudaRegions.register},
	{"/v2/cudasharedmemory[/region/{name}]/unregister", "POST", SharedMemory, typeJSON, cudaRegions.unregister},
}

// The routes of the KServe v1 protocol, which is TensorFlow Serving's REST API.
var v1Routes = []route{
	{"/v1/models", "GET", ModelRepository, typeJSON, v1Models},
	{"/v1/models/{model}[/versions/{version}]", "GET", Metadata, typeJSON, v1Model},
	{"/v1/models/{model}:predict", "POST", Inference, typeJSON, v1Predict},
	{"/v1/models/{model}/versions/{version}:predict", "POST", Inference, typeJSON, v1Predict},
}

// sageMakerRoutes are the routes of SageMaker's containers. Wrong methods are bad requests, except for the first two.
func sageMakerRoutes(pingLive bool, kind string) []route {
	ping := serverReady
	if pingLive {
		ping = serverLive
	}
	invoke := route{"/invocations", "POST", Inference, typeText, inferRoute}
	switch kind {
	case "generate":
		invoke.errorType, invoke.handle = typeJSON, generate
	case "generate_stream":
		invoke.errorType, invoke.handle = typeJSON, generateStream
	}
	return []route{
		{"/ping", "GET", Health, typeText, ping},
		invoke,
		{"/models[/]", "GET", ModelRepository, typeJSON, archiveList},
		{"/models[/]", "POST", ModelRepository, typeJSON, archiveLoad},
		{"/models[/]", "", Unknown, typeText, emptyReply(400)},
		{"/models/{name}", "GET", ModelRepository, typeJSON, archiveGet},
		{"/models/{name}", "DELETE", ModelRepository, typeJSON, archiveUnload},
		{"/models/{name}", "", Unknown, typeText, emptyReply(400)},
		{"/models/{name}/invoke", "POST", Inference, typeText, archiveInvoke},
		{"/models/{name}/invoke", "", Unknown, typeText, emptyReply(400)},
	}
}

// Routes that no path leads to.
var (
	notFoundRoute   = route{"", "", Unknown, typeText, notFound}
	badRequestRoute = route{"", "", Unknown, typeText, emptyReply(400)}
	forbiddenRoute  = route{"", "", Unknown, typeText, emptyReply(403)}
	postOnlyRoute   = route{"", "", Unknown, typeText, emptyReply(405)}
	metricsRoute    = route{"", "GET", Statistics, typeText, metricsText}
)

func notFound(s *Server, x *exchange) error {
	s.discardBody(x)
	x.bytes(404, typeText, []byte(`{"error":"Not Found"}`))
	return nil
}

// emptyReply returns a handler that answers with a status and no body.
func emptyReply(code int) handler {
	return func(s *Server, x *exchange) error {
		s.discardBody(x)
		x.empty(code, typeText)
		return nil
	}
}
