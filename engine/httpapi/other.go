package httpapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"nereid/engine"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

// serveOther answers everything that is not an inference.
func (s *Server) serveOther(x *exchange) {
	method, contentType := wants(x.route.endpoint)
	switch {
	case x.route.endpoint >= archiveList:
		s.serveCloud(x)
		return
	case x.route.endpoint == noEndpoint:
		s.readAway(x)
		x.notFound()
		return
	case method != "" && !x.is(method), method == "" && !x.is("GET") && !x.is("POST"):
		s.readAway(x)
		x.notAllowed(contentType)
		return
	}
	if x.is("GET") {
		s.readAway(x)
	}
	switch x.route.endpoint {
	case serverMetadata:
		x.bytes(200, typeJSON, appendServerMetadata(nil, s.opt.Engine.ServerMetadata()))
	case modelList:
		x.bytes(200, typeJSON, appendIndex(nil, s.opt.Engine.RepositoryIndex(false)))
	case serverLive:
		x.empty(healthStatus(s.opt.Engine.Live()), typeText)
	case serverReady:
		x.empty(healthStatus(s.opt.Engine.Ready() && !s.closing.Load()), typeText)
	case modelMetadata, modelReady, modelConfig, modelStats, allStats:
		s.serveModel(x)
	case repositoryIndex, repositoryLoad, repositoryUnload:
		s.serveRepository(x)
	case v1List, v1Model, v1Predict:
		s.serveV1(x)
	case modelGenerate, modelGenerateStream:
		s.generate(x, x.route.endpoint == modelGenerateStream)
	case systemShmStatus, systemShmRegister, systemShmUnregister, cudaShmStatus, cudaShmRegister, cudaShmUnregister:
		s.serveSharedMemory(x)
	case modelTrace, traceSetting, logSetting:
		s.serveSettings(x)
	}
}

// wants returns the method of an endpoint, "" for GET and POST, and the content type of the refusal of others.
func wants(e endpoint) (method, contentType string) {
	switch e {
	case serverLive, serverReady, modelReady:
		return "GET", typeText
	case serverMetadata, modelList, modelMetadata, modelConfig, modelStats, allStats, systemShmStatus, cudaShmStatus:
		return "GET", typeJSON
	case modelInfer:
		return "POST", typeText
	case v1List, v1Model:
		return "GET", typeJSON
	case modelTrace, traceSetting, logSetting:
		return "", typeJSON
	}
	return "POST", typeJSON
}

func healthStatus(ok bool) int {
	if ok {
		return 200
	}
	return 400
}

// serveModel answers what is asked about a model.
func (s *Server) serveModel(x *exchange) {
	if x.route.endpoint == allStats {
		s.serveStatistics(x, "", -1)
		return
	}
	contentType := typeJSON
	if x.route.endpoint == modelReady {
		contentType = typeText
	}
	name, version, ok := s.target(x, contentType)
	if !ok {
		return
	}
	switch x.route.endpoint {
	case modelReady:
		if ready, err := s.opt.Engine.ModelReady(name, version); err != nil || !ready {
			x.fail(400, typeText, "Model version not ready")
			return
		}
		x.empty(200, typeText)
	case modelMetadata:
		m, err := s.opt.Engine.ModelMetadata(name, version)
		if err != nil {
			x.failWith(typeJSON, err)
			return
		}
		x.bytes(200, typeJSON, appendModelMetadata(nil, m))
	case modelConfig:
		cfg, err := s.opt.Engine.ModelConfig(name, version)
		if err != nil {
			x.failWith(typeJSON, err)
			return
		}
		x.bytes(200, typeJSON, modelconfig.MarshalJSON(cfg))
	case modelStats:
		s.serveStatistics(x, name, version)
	}
}

func (s *Server) serveStatistics(x *exchange, name string, version int64) {
	st, err := s.opt.Engine.ModelStatistics(name, version)
	if err != nil {
		x.failWith(typeJSON, err)
		return
	}
	x.bytes(200, typeJSON, appendStatistics(nil, st))
}

// serveRepository answers index, load and unload.
func (s *Server) serveRepository(x *exchange) {
	buf, body, err := s.readBody(x, 0)
	if err != nil {
		s.replyBodyError(x, err)
		return
	}
	defer buf.Release()
	if len(x.route.extra) > 0 && x.route.endpoint != repositoryIndex { // Triton's index takes any repository's name for all of them
		x.failWith(typeJSON, status.New(status.Unsupported, "'repository_name' specification is not supported"))
		return
	}
	if err := s.repository(x, body); err != nil {
		x.failWith(typeJSON, err)
	}
}

func (s *Server) repository(x *exchange, body []byte) error {
	if x.route.endpoint == repositoryIndex {
		ready, err := parseIndex(body)
		if err == nil {
			x.bytes(200, typeJSON, appendIndex(nil, s.opt.Engine.RepositoryIndex(ready)))
		}
		return err
	}
	name, ok := unescape(x.route.model)
	if !ok {
		return status.New(status.InvalidArg, "the path has a malformed %-escape")
	}
	if err := checkModelName(name); err != nil {
		return err
	}
	if x.route.endpoint == repositoryLoad {
		p, err := parseLoad(body)
		if err == nil {
			err = s.opt.Engine.LoadModel(s.lifetime, string(name), p)
		}
		if err == nil {
			x.empty(200, typeJSON)
		}
		return err
	}
	dependents, version, err := parseUnload(body)
	switch {
	case err != nil:
	case version != 0:
		err = s.opt.Engine.UnloadVersion(s.lifetime, string(name), version)
	default:
		err = s.opt.Engine.UnloadModel(s.lifetime, string(name), dependents)
	}
	if err == nil {
		x.empty(200, typeJSON)
	}
	return err
}

// checkModelName refuses names that could not be one folder in a repository.
func checkModelName(name []byte) error {
	text := string(name)
	if text == "." || text == ".." || strings.ContainsAny(text, "/\\") || !utf8.Valid(name) ||
		bytes.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return status.New(status.InvalidArg, "model name '"+printable(name)+
			"' is not the name of a folder: it must be UTF-8 without slashes and control characters")
	}
	return nil
}

// object walks the members of a document that is one object; an empty document counts as {}.
func object(doc []byte, member func(s *scanner, key []byte) error) error {
	if s := atStart(doc); s.peek() != 0 {
		return s.document(member)
	}
	return nil
}

// filledObject is object but for an empty document, which is a fault.
func filledObject(doc []byte, member func(s *scanner, key []byte) error) error {
	s := atStart(doc)
	if s.peek() == 0 {
		return errors.Unwrap(s.fail(errEmpty, s.i))
	}
	return s.document(member)
}

// atStart stands on the first character of a document.
func atStart(doc []byte) *scanner {
	s := &scanner{b: doc}
	s.byteOrderMark()
	s.space()
	return s
}

// document reads all of a document that is one object. A fault of its syntax comes before what member finds.
func (s *scanner) document(member func(s *scanner, key []byte) error) error {
	err := func() error {
		if s.peek() != '{' {
			return status.New(status.InvalidArg, nonObject)
		}
		return s.object(member)
	}()
	if err == nil {
		err = s.end()
	}
	if err == nil {
		return nil
	}
	var syntax syntaxError
	if errors.As(err, &syntax) || errors.As(checkSyntax(s.b), &syntax) {
		return syntax.error
	}
	return err
}

// object calls member for every member of the object that it stands on; member reads or skips the value.
func (s *scanner) object(member func(s *scanner, key []byte) error) error {
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		if err := member(s, key); err != nil {
			return err
		}
	}
}

func parseIndex(body []byte) (ready bool, err error) {
	err = object(body, func(s *scanner, key []byte) error {
		if string(key) != "ready" {
			return s.skip()
		}
		v, ok := s.boolean()
		if !ok {
			return status.New(status.InvalidArg, nonBoolean)
		}
		ready = v
		return nil
	})
	return ready, err
}

// parameters walks the members of a document's "parameters".
func parameters(body []byte, member func(s *scanner, key []byte) error) error {
	return object(body, func(s *scanner, key []byte) error {
		if string(key) != "parameters" {
			return s.skip()
		}
		if s.peek() != '{' {
			return status.New(status.InvalidArg, noMembers)
		}
		return s.object(member)
	})
}

func parseLoad(body []byte) (engine.LoadParameters, error) {
	var p engine.LoadParameters
	err := parameters(body, func(s *scanner, key []byte) error {
		name := string(key)
		if name == versionParameter {
			v, err := oneVersion(s)
			p.Version = v
			return err
		}
		if s.peek() != '"' {
			return status.New(status.InvalidArg, nonString)
		}
		file, isFile := strings.CutPrefix(name, "file:")
		if name != "config" && !isFile {
			return status.New(status.InvalidArg, "unexpected error on creating Triton parameter")
		}
		text, err := s.text()
		if err != nil {
			return err
		}
		if !isFile {
			p.ConfigJSON = string(text)
			return nil
		}
		content := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(content, text)
		if err != nil {
			return status.Errorf(status.InvalidArg, "parameter '%s' is not base64: %w", name, err)
		}
		if p.Files == nil {
			p.Files = map[string][]byte{}
		}
		p.Files[file] = content[:n]
		return nil
	})
	return p, err
}

// versionParameter of load and unload names the one version that is meant. It is ours.
const versionParameter = "version"

// oneVersion reads its value: a positive whole number, or its digits as a string.
func oneVersion(s *scanner) (int64, error) {
	v, ok := int64(0), false
	if s.peek() == '"' {
		text, err := s.text()
		if err != nil {
			return 0, err
		}
		v, err = strconv.ParseInt(string(text), 10, 64)
		ok = err == nil
	} else {
		n, err := s.number()
		if err != nil {
			return 0, err
		}
		v, ok = n.signed()
	}
	if !ok || v < 1 {
		return 0, status.New(status.InvalidArg, "parameter 'version' must be the number of a version")
	}
	return v, nil
}

func parseUnload(body []byte) (dependents bool, version int64, err error) {
	err = parameters(body, func(s *scanner, key []byte) (err error) {
		if string(key) == versionParameter {
			version, err = oneVersion(s)
			return err
		}
		if string(key) != "unload_dependents" {
			return s.skip()
		}
		v, ok := s.boolean()
		if !ok {
			return status.New(status.InvalidArg, nonBoolean)
		}
		dependents = v
		return nil
	})
	if err == nil && dependents && version != 0 {
		err = status.New(status.InvalidArg, "parameters 'version' and 'unload_dependents' cannot be given together")
	}
	return dependents, version, err
}

func appendServerMetadata(b []byte, m *inferencepb.ServerMetadataResponse) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, m.GetName())
	b = append(b, `,"version":`...)
	b = appendString(b, m.GetVersion())
	b = append(b, `,"extensions":`...)
	b = appendStrings(b, m.GetExtensions())
	return append(b, '}')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v)
	}
	return append(b, ']')
}

func appendModelMetadata(b []byte, m *inferencepb.ModelMetadataResponse) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, m.GetName())
	b = append(b, `,"versions":`...)
	b = appendStrings(b, m.GetVersions())
	b = append(b, `,"platform":`...)
	b = appendString(b, m.GetPlatform())
	b = append(b, `,"inputs":`...)
	b = appendTensorMetadata(b, m.GetInputs())
	b = append(b, `,"outputs":`...)
	b = appendTensorMetadata(b, m.GetOutputs())
	return append(b, '}')
}

func appendTensorMetadata(b []byte, list []*inferencepb.ModelMetadataResponse_TensorMetadata) []byte {
	b = append(b, '[')
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, t.GetName())
		b = append(b, `,"datatype":`...)
		b = appendString(b, t.GetDatatype())
		b = append(b, `,"shape":`...)
		b = appendShape(b, t.GetShape())
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendIndex(b []byte, list []*inferencepb.RepositoryIndexResponse_ModelIndex) []byte {
	b = append(b, '[')
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, m.GetName())
		for _, f := range [...]struct{ key, value string }{
			{"version", m.GetVersion()}, {"state", m.GetState()}, {"reason", m.GetReason()},
		} {
			if f.value != "" {
				b = append(b, `,"`+f.key+`":`...)
				b = appendString(b, f.value)
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
