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

// A checkpoint is a file of JSON lines: what was measured and how, then a line for each trial. It is only added to, so that
// a search may be cut short anywhere.

// checkpointHead says what the measurements are of. Those of another model, configuration or load are no use.
type checkpointHead struct {
	Version int
	Model   string
	With    []string          `json:",omitempty"`
	Configs map[string]string // the present ones, by model
	Batch   int
	Rate    bool
	Server  []string // options
	Data    []string
	Inputs  perf.InputOptions
}

type checkpointLine struct {
	Key string
	tune.Measurement
}

// checkpoint reads the measurements of an earlier search and returns how one more is kept.
func (o *tuneOptions) checkpoint(t *tuner) (known map[string]tune.Measurement, keep func(tune.Trial) error, err error) {
	if o.checkpointAt == "" {
		return nil, func(tune.Trial) error { return nil }, nil
	}
	head := checkpointHead{Version: 1, Model: t.model.name, With: o.with, Configs: map[string]string{}, Batch: t.batch, Rate: t.rate, Server: t.options, Data: o.data, Inputs: o.inputs}
	for _, m := range t.models() {
		head.Configs[m.name] = m.config
	}
	first, err := json.Marshal(head)
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(o.checkpointAt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("--checkpoint: %w", err)
	}
	if known, err = readCheckpoint(b, first); err != nil {
		return nil, nil, fmt.Errorf("--checkpoint %s: %w", o.checkpointAt, err)
	}
	whole := bytes.LastIndexByte(b, '\n') + 1 // what comes after was cut short
	switch {
	case whole == 0:
		err = os.WriteFile(o.checkpointAt, append(first, '\n'), 0o644)
	case whole < len(b):
		err = os.Truncate(o.checkpointAt, int64(whole))
	default:
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--checkpoint: %w", err)
	}
	return known, func(trial tune.Trial) error {
		line, err := json.Marshal(checkpointLine{t.space.Key(trial.Candidate), trial.Measurement})
		if err != nil {
			return err
		}
		f, err := os.OpenFile(o.checkpointAt, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return fmt.Errorf("--checkpoint: %w", err)
		}
		_, err = f.Write(append(line, '\n'))
		return errors.Join(err, f.Close())
	}, nil
}

var errNotCheckpoint = errors.New("it is of another model, configuration, load or server; name another file, or remove it")

// readCheckpoint reads the measurements of a checkpoint whose head is to be first. A last line without an end does not count.
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
