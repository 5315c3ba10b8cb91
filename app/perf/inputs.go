package perf

import (
	"fmt"
	"os"
)

// Generated reports whether ReadInputs generates the tensors for these paths.
func Generated(paths []string) bool {
	return len(paths) == 0 || len(paths) == 1 && (paths[0] == "random" || paths[0] == "zero")
}

// ReadInputs returns what the values of --input-data name: "random" or no value at all for random tensors, "zero" for
// zeros, and otherwise folders and JSON files, whose data is joined.
func ReadInputs(paths []string, m *Model, o InputOptions) (*Data, error) {
	if Generated(paths) {
		o.Zero = len(paths) == 1 && paths[0] == "zero"
		return Generate(m, o)
	}
	var all *Data
	for _, path := range paths {
		data, err := readPath(path, m, o)
		if err != nil {
			return nil, fmt.Errorf("--input-data %s: %w", path, err)
		}
		if all == nil {
			all = data
		} else {
			all.Append(data)
		}
	}
	return all, nil
}

func readPath(path string, m *Model, o InputOptions) (*Data, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("want zero, random, a folder or a file of JSON: %w", err)
	}
	if info.IsDir() {
		return ReadFolder(path, m, o)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseData(b, m, o)
}
