package compat

// VertexAI makes a server answer like Google Vertex AI's containers, instead of the v2 routes. The content type
// VertexAIBinary marks a request's body in binary form. Replies have the header of the v2 protocol, as Triton's.
type VertexAI struct {
	// Predict and Health are the paths of the two routes: AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE.
	Predict, Health string
	// Model returns the name of the model that answers predictions, "" if none is known.
	Model func() string
}

const (
	// VertexAIBinary is the content type of a binary body, without the length of its JSON part.
	VertexAIBinary = "application/vnd.vertex-ai-triton.binary+json;json-header-size="
	// VertexAIRedirect is the header that sends a prediction to another route: a path of the v2 protocol without the
	// first slash, or "metrics".
	VertexAIRedirect = "X-Vertex-Ai-Triton-Redirect"
)
