package httpapi

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"nereid/engine"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/status"
)

// repositoryIndex lists the models. As in Triton, the name of any repository stands for all of them.
func repositoryIndex(s *Server, x *exchange) error {
	return s.withBody(x, func(body []byte) error {
		ready, err := parseIndex(body)
		if err == nil {
			x.json(IndexJSON(s.opt.Engine.RepositoryIndex(ready)))
		}
		return err
	})
}

func loadModel(s *Server, x *exchange) error {
	return s.changeModel(x, func(name string, body []byte) error {
		p, err := parseLoad(body)
		if err != nil {
			return err
		}
		return s.opt.Engine.LoadModel(s.lifetime(), name, p)
	})
}

func unloadModel(s *Server, x *exchange) error {
	return s.changeModel(x, func(name string, body []byte) error {
		dependents, version, err := parseUnload(body)
		switch {
		case err != nil:
			return err
		case version != 0:
			return s.opt.Engine.UnloadVersion(s.lifetime(), name, version)
		}
		return s.opt.Engine.UnloadModel(s.lifetime(), name, dependents)
	})
}

// changeModel calls change with the name of the path's model and the body.
func (s *Server) changeModel(x *exchange, change func(name string, body []byte) error) error {
	return s.withBody(x, func(body []byte) error {
		if len(x.route.name) > 0 {
			return status.New(status.Unsupported, "'repository_name' specification is not supported")
		}
		name, err := unescape(x.route.model)
		if err == nil {
			err = checkModelName(name)
		}
		if err == nil {
			err = change(name, body)
		}
		if err == nil {
			x.empty(200, typeJSON)
		}
		return err
	})
}

// checkModelName refuses names that cannot be one folder of a repository.
func checkModelName(name string) error {
	if name == "." || name == ".." || strings.ContainsAny(name, "/\\") || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == unicode.MaxASCII }) {
		return status.New(status.InvalidArg, "model name '"+tensorjson.Printable(name)+
			"' is not the name of a folder: it must be UTF-8 without slashes and control characters")
	}
	return nil
}

// members calls member for each member of a document that is one object; an empty document counts as {}.
func members(doc []byte, member func(s *tensorjson.Scanner, key []byte) error) error {
	if tensorjson.Blank(doc) {
		return nil
	}
	return tensorjson.ReadObject(doc, member)
}

// parameters calls member for each member of a document's "parameters".
func parameters(doc []byte, member func(s *tensorjson.Scanner, key []byte) error) error {
	return members(doc, func(s *tensorjson.Scanner, key []byte) error {
		switch {
		case string(key) != "parameters":
			return s.Skip()
		case s.Peek() != '{':
			return tensorjson.ErrNoMembers
		}
		return s.Object(func(key []byte) error { return member(s, key) })
	})
}

func parseIndex(body []byte) (ready bool, err error) {
	err = members(body, func(s *tensorjson.Scanner, key []byte) (err error) {
		if string(key) != "ready" {
			return s.Skip()
		}
		ready, err = s.Bool()
		return err
	})
	return ready, err
}

func parseLoad(body []byte) (engine.LoadParameters, error) {
	var p engine.LoadParameters
	err := parameters(body, func(s *tensorjson.Scanner, key []byte) (err error) {
		name := string(key)
		if name == versionParameter {
			p.Version, err = parseVersion(s)
			return err
		}
		if s.Peek() != '"' {
			return tensorjson.ErrNotString
		}
		file, isFile := strings.CutPrefix(name, "file:")
		if name != "config" && !isFile {
			return status.New(status.InvalidArg, "unexpected error on creating Triton parameter")
		}
		text, err := s.Text()
		if err != nil {
			return err
		}
		if !isFile {
			p.ConfigJSON = string(text)
			return nil
		}
		content, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return status.Errorf(status.InvalidArg, "parameter '%s' is not base64: %w", name, err)
		}
		if p.Files == nil {
			p.Files = map[string][]byte{}
		}
		p.Files[file] = content
		return nil
	})
	return p, err
}

// versionParameter of load and unload names the only version that changes. It is an extension of this server.
const versionParameter = "version"

// parseVersion reads its value: a positive whole number, or its digits as a string.
func parseVersion(s *tensorjson.Scanner) (version int64, err error) {
	if s.Peek() == '"' {
		var text string
		if text, err = s.String(); err == nil {
			version, err = strconv.ParseInt(text, 10, 64)
		}
	} else {
		var v uint64
		v, err = s.Unsigned()
		version = int64(v) //nolint:gosec // checked below
	}
	if err != nil || version < 1 {
		err = status.New(status.InvalidArg, "parameter 'version' must be the number of a version")
	}
	return version, err
}

func parseUnload(body []byte) (dependents bool, version int64, err error) {
	err = parameters(body, func(s *tensorjson.Scanner, key []byte) (err error) {
		switch string(key) {
		case versionParameter:
			version, err = parseVersion(s)
		case "unload_dependents":
			dependents, err = s.Bool()
		default:
			err = s.Skip()
		}
		return err
	})
	if err == nil && dependents && version != 0 {
		err = status.New(status.InvalidArg, "parameters 'version' and 'unload_dependents' cannot be given together")
	}
	return dependents, version, err
}
