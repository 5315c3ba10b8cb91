package modelconfig

import "strings"

// Pos is a position in a file: line and column from 1, the column in characters. The zero Pos is no position.
type Pos struct{ Line, Col int }

// Positions are the positions of the fields of a parsed configuration. A nil *Positions has none.
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
	return p != nil && p.at[path] != Pos{}
}

// At returns the position of a path such as input[0].dims[1] or parameters["k"].string_value. For a scalar this is the
// position of its value, for a message or a whole repeated field that of its name. A path that the file does not have
// gets the position of its closest parent, or the zero Pos.
func (p *Positions) At(path string) Pos {
	for ; p != nil; path = parentPath(path) {
		if pos, ok := p.at[path]; ok || path == "" {
			return pos
		}
	}
	return Pos{}
}

// add records the position of a path unless it has one already.
func (p *Positions) add(path string, pos Pos) {
	if _, ok := p.at[path]; !ok {
		p.at[path] = pos
	}
}

// parentPath removes the last .name, [index] or ["key"] from a path.
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
