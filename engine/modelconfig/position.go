package modelconfig

import "strings"

// Pos is a place in a file: line and column from 1, the column in characters. The zero Pos is no place.
type Pos struct{ Line, Col int }

// Positions tells where each field of a parsed configuration stands. A nil *Positions knows no place.
type Positions struct {
	file string
	at   map[string]Pos
}

func newPositions(file string) *Positions {
	return &Positions{file: file, at: make(map[string]Pos)}
}

// File returns the name that was given to Parse.
func (p *Positions) File() string {
	if p == nil {
		return ""
	}
	return p.file
}

// Has reports whether the file sets the field at path.
func (p *Positions) Has(path string) bool {
	if p == nil {
		return false
	}
	_, ok := p.at[path]
	return ok
}

// At returns the place of a path such as input[0].dims[1] or parameters["k"].string_value: of its value for
// a scalar, of its name for a message or a repeated field as a whole. A path that the file does not have
// gets the place of the nearest part around it that it has; the zero Pos if there is none.
func (p *Positions) At(path string) Pos {
	if p == nil {
		return Pos{}
	}
	for {
		if pos, ok := p.at[path]; ok {
			return pos
		}
		if path == "" {
			return Pos{}
		}
		path = parentPath(path)
	}
}

// add notes the place of a path unless it has one already.
func (p *Positions) add(path string, pos Pos) {
	if _, ok := p.at[path]; !ok {
		p.at[path] = pos
	}
}

// parentPath takes the last .name, [index] or ["key"] off a path.
func parentPath(path string) string {
	if strings.HasSuffix(path, `"]`) {
		for i := len(path) - 3; i >= 1; i-- {
			if path[i] == '"' && path[i-1] == '[' {
				return path[:i-1]
			}
		}
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
