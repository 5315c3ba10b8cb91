package httpapi

import (
	"bytes"
	"strings"

	"nereid/engine/httpapi/compat"
)

// router finds the route of a request. It does not change after it is made.
type router struct {
	root     node
	basePath string
	vertexAI *compat.VertexAI // nil: the routes of the table
	model    []byte           // of routes without {model}, nil: none
	fallback *route           // for paths that are no route
	// binaryType is the content type of a body in binary form, which ends with the length of its JSON part. "": a
	// header has the length. Replies have it too if binaryReply is set.
	binaryType  string
	binaryReply bool
}

// matched is the route of a request. Its slices are views of the path, as sent.
type matched struct {
	*route
	methodAllowed bool
	model         []byte
	version       []byte // digits, or empty
	name          []byte // the repository, the shared memory region or the archive, if the path has one
	archive       bool   // the model is one of SageMaker's archives: errors have its status codes
}

// node is a place in the tree of path segments.
type node struct {
	literals map[string]*node
	params   []param
	routes   []*route // of a path that ends here
}

// param is a segment {kind}suffix.
type param struct {
	kind   string
	suffix string
	next   *node
}

func newRouter(o *Options) *router {
	r := &router{basePath: o.BasePath, fallback: &notFoundRoute}
	table := v2Routes
	switch {
	case o.SageMaker != nil:
		table = sageMakerRoutes(o.SageMaker.PingLive, o.SageMaker.Kind)
		r.basePath, r.model, r.fallback, r.binaryType = "", []byte(o.SageMaker.Model), &badRequestRoute,
			compat.SageMakerBinary
		r.binaryReply = true
	case o.VertexAI != nil:
		r.basePath, r.vertexAI, r.fallback, r.binaryType = "", o.VertexAI, &badRequestRoute, compat.VertexAIBinary
	case o.V1:
		table = append(table[:len(table):len(table)], v1Routes...)
	}
	for i := range table {
		r.add(&table[i])
	}
	return r
}

// add adds a route, and if a part of its pattern may be missing, the pattern without it.
func (r *router) add(to *route) {
	head, rest, optional := strings.Cut(to.pattern, "[")
	if !optional {
		r.root.add(head[1:], to)
		return
	}
	middle, tail, _ := strings.Cut(rest, "]")
	r.root.add((head + tail)[1:], to)
	r.root.add((head + middle + tail)[1:], to)
}

func (n *node) add(pattern string, to *route) {
	segment, rest, more := strings.Cut(pattern, "/")
	next := n.child(segment)
	if more {
		next.add(rest, to)
	} else {
		next.routes = append(next.routes, to)
	}
}

// child returns the node below n for a segment of a pattern.
func (n *node) child(segment string) *node {
	kind, suffix, isParam := strings.Cut(strings.TrimPrefix(segment, "{"), "}")
	if !isParam {
		if n.literals == nil {
			n.literals = map[string]*node{}
		}
		if n.literals[segment] == nil {
			n.literals[segment] = &node{}
		}
		return n.literals[segment]
	}
	for _, p := range n.params {
		if p.kind == kind && p.suffix == suffix {
			return p.next
		}
	}
	p := param{kind, suffix, &node{}}
	if suffix == "" {
		n.params = append(n.params, p)
	} else {
		n.params = append([]param{p}, n.params...) // before the one that matches more
	}
	return p.next
}

// match finds the routes of a path below n, and the values of its parameters. Nothing is normalised: "v2/" and "/v2"
// are no routes.
func (n *node) match(path []byte, m *matched) []*route {
	segment, rest, more := bytes.Cut(path, slash)
	if next := n.literals[string(segment)]; next != nil {
		if routes := next.end(rest, more, m); routes != nil {
			return routes
		}
	}
	for i := range n.params {
		p := &n.params[i]
		value, ok := bytes.CutSuffix(segment, []byte(p.suffix))
		if !ok || len(value) == 0 || p.kind == "version" && !isDigits(value) {
			continue
		}
		if routes := p.next.end(rest, more, m); routes != nil {
			switch p.kind {
			case "model":
				m.model = value
			case "version":
				m.version = value
			default:
				m.name = value
			}
			return routes
		}
	}
	return nil
}

// end goes on matching if there is more of the path.
func (n *node) end(rest []byte, more bool, m *matched) []*route {
	if more {
		return n.match(rest, m)
	}
	return n.routes
}

var slash = []byte("/")

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// find returns the route of a request. It may change the request's method: Vertex AI sends only POST.
func (r *router) find(x *exchange) matched {
	if r.vertexAI != nil {
		return r.findVertexAI(x)
	}
	path := x.path
	if strings.HasPrefix(view(path), r.basePath) {
		path = path[len(r.basePath):]
	}
	m := r.lookup(path, x.method)
	if m.model == nil {
		m.model = r.model
	}
	return m
}

// lookup finds a path and a method in the table.
func (r *router) lookup(path, method []byte) (m matched) {
	if len(path) > 0 && path[0] == '/' {
		for i, to := range r.root.match(path[1:], &m) {
			allowed := to.method == "" || to.method == string(method)
			if i == 0 || allowed {
				m.route, m.methodAllowed = to, allowed
			}
			if allowed {
				return m
			}
		}
	}
	if m.route == nil {
		m = matched{route: r.fallback, methodAllowed: true}
	}
	return m
}

// findVertexAI finds the route of a prediction. The redirect header may lead to any route that only reads; routes that
// change the server need its own port, as in Triton.
func (r *router) findVertexAI(x *exchange) matched {
	always := func(to *route) matched { return matched{route: to, methodAllowed: true} }
	switch string(x.path) {
	case r.vertexAI.Health:
		return r.lookup([]byte("/v2/health/ready"), x.method)
	case r.vertexAI.Predict:
	default:
		return always(r.fallback)
	}
	to := x.headers.Peek(compat.VertexAIRedirect)
	if len(to) == 0 {
		m := r.lookup([]byte("/v2/models/-/infer"), x.method)
		m.model = []byte(r.vertexAI.Model())
		return m
	}
	if !x.is("POST") {
		return always(&postOnlyRoute)
	}
	if string(to) == "metrics" {
		x.method = []byte("GET")
		return always(&metricsRoute)
	}
	m := r.lookup(append([]byte{'/'}, to...), x.method)
	switch {
	case m.route == r.fallback, m.group == Trace, m.group == Logging, m.pattern == "/v2/models",
		m.group == Inference && !strings.HasSuffix(m.pattern, "/infer"):
		return always(&badRequestRoute)
	case m.method == "GET":
		x.method, m.methodAllowed = []byte("GET"), true
	case m.group != Inference && !strings.HasSuffix(m.pattern, "/index"):
		return always(&forbiddenRoute)
	}
	return m
}
