package tunecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"nereid/app/perf"
	"nereid/app/tune"
)

// A checkpoint is a file of JSON lines: the head says what was measured and how, and then comes a line for each trial.
// It is only appended to, so that a search may be interrupted at any time.

// checkpointHead identifies the measurements. Those of another model, configuration or load cannot be used.
type checkpointHead struct {
	Version int
	Model   string
	With    []string          `json:",omitempty"`
	Configs map[string]string // the present ones, by model
	Files   map[string]string // the state of the other files, by model
	Batch   int
	Rate    bool
	Server  []string // options
	Data    []string
	Given   map[string]string `json:",omitempty"` // hashes of the inputs from files, by model
	Inputs  perf.InputOptions
}

type checkpointLine struct {
	Key string
	tune.Measurement
}

// openCheckpoint reads the measurements of an earlier search. keep appends a trial.
func (o *options) openCheckpoint(t *tuner) (known map[string]tune.Measurement, keep func(tune.Trial) error, err error) {
	path, m := o.search.checkpoint, &o.measure
	if path == "" {
		return nil, func(tune.Trial) error { return nil }, nil
	}
	head := checkpointHead{
		Version: 1, Model: o.model, With: o.with, Configs: map[string]string{}, Files: map[string]string{},
		Given: map[string]string{},
		Batch: m.batch, Rate: t.rate, Server: t.serverOptions, Data: m.paths, Inputs: m.inputs,
	}
	for _, m := range t.models() {
		head.Configs[m.name] = m.config
		head.Files[m.name] = m.files()
	}
	for _, l := range t.loads {
		if l.data.Given {
			head.Given[l.model.Name] = l.data.Hash()
		}
	}
	first, err := json.Marshal(head)
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("--checkpoint: %w", err)
	}
	if known, err = readCheckpoint(b, first); err != nil {
		return nil, nil, fmt.Errorf("--checkpoint %s: %w", path, err)
	}
	whole := bytes.LastIndexByte(b, '\n') + 1 // a line after that was interrupted
	if whole == 0 {
		err = os.WriteFile(path, append(first, '\n'), 0o644)
	} else {
		err = os.Truncate(path, int64(whole))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--checkpoint: %w", err)
	}
	return known, func(trial tune.Trial) error {
		line, err := json.Marshal(checkpointLine{t.space.Key(trial.Candidate), trial.Measurement})
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return fmt.Errorf("--checkpoint: %w", err)
		}
		_, err = f.Write(append(line, '\n'))
		return errors.Join(err, f.Close())
	}, nil
}

var errNotCheckpoint = errors.New("it is of another model, configuration, load or server, or files of a model or of " +
	"the inputs have changed; name another file, or remove it")

// readCheckpoint reads the measurements of a checkpoint whose head must be first. A last line without an end does not
// count.
func readCheckpoint(b, first []byte) (map[string]tune.Measurement, error) {
	known := map[string]tune.Measurement{}
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		switch {
		case !ok && n == 1 && !bytes.HasPrefix(first, b):
			return nil, errNotCheckpoint
		case !ok:
			return known, nil
		}
		b = rest
		if n == 1 {
			if !bytes.Equal(line, first) {
				return nil, errNotCheckpoint
			}
			continue
		}
		var l checkpointLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		known[l.Key] = l.Measurement
	}
}
