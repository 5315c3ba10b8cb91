package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FileOption is the option that names the configuration file. The file itself must not contain it.
const FileOption = "config-file"

// setting is one value of an option, and where it comes from.
type setting struct {
	name  string // as it was given, without dashes
	value string
	from  string // "the command line", or a file and a line
}

const commandLine = "the command line"

// readFile reads the settings of a configuration file.
func (t names) readFile(path string) ([]setting, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", FileOption, err)
	}
	return t.decodeFile(path, data)
}

// decodeFile decodes YAML: a mapping of options, without dashes, to values. A list gives an option several times. An
// option without a value is given by true. It returns all faults at once, each with its line.
func (t names) decodeFile(path string, data []byte) ([]setting, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" { // comments alone
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: write one option a line, such as http-port: 8000", path, root.Line)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is a second document; write all options into one", path)
	}
	var settings []setting
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		read, err := t.fileOption(key, value)
		if err == nil && seen[t[key.Value].names[0]] {
			err = fmt.Errorf("%s is there twice; write its values as one list", key.Value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, key.Line, err))
			continue
		}
		seen[t[key.Value].names[0]] = true
		for _, s := range read {
			s.from = fmt.Sprintf("%s:%d", path, key.Line)
			settings = append(settings, s)
		}
	}
	return settings, errors.Join(errs...)
}

// fileOption reads the values of one key.
func (t names) fileOption(key, value *yaml.Node) ([]setting, error) {
	o, known := t[key.Value]
	switch {
	case key.Kind != yaml.ScalarNode:
		return nil, errors.New("this is no name of an option")
	case !known:
		return nil, fmt.Errorf("unrecognized option '%s'%s", key.Value,
			strings.Replace(suggest(strings.TrimLeft(key.Value, "-"), t), "--", "", 1))
	case o.names[0] == "help" || o.names[0] == FileOption:
		return nil, fmt.Errorf("%s works only on the command line", key.Value)
	}
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		items = value.Content
	}
	var read []setting
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, fmt.Errorf("%s needs a value, or a list of values", key.Value)
		}
		if o.arg == "" {
			on, err := parseBool(item.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key.Value, err)
			}
			if !on {
				continue
			}
		}
		read = append(read, setting{name: key.Value, value: item.Value})
	}
	return read, nil
}

// overridden returns the settings of a file without those of options that the command line gives too.
func (t names) overridden(file, line []setting) []setting {
	given := map[string]bool{}
	for _, s := range line {
		given[t[s.name].names[0]] = true
	}
	return slices.DeleteFunc(file, func(s setting) bool { return given[t[s.name].names[0]] })
}
