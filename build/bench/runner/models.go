package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// modelFolder is a model as it lies in a repository, with one version.
type modelFolder struct {
	name, config string
	file         string // of version 1; "": that folder is empty
	data         []byte
}

// onCPU adds so many instances on the CPU to a configuration.
func onCPU(config string, count int) string {
	return config + fmt.Sprintf("instance_group { count: %d kind: KIND_CPU }\n", count)
}

// onnxFolder is a model whose version is a copy of an ONNX file.
func onnxFolder(name, config, path string) (modelFolder, error) {
	data, err := os.ReadFile(path)
	return modelFolder{name: name, config: config, file: "model.onnx", data: data}, err
}

// writeRepository makes a repository of these models alone; what was there before goes.
func writeRepository(root string, models ...modelFolder) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	for _, m := range models {
		version := filepath.Join(root, m.name, "1")
		if err := os.MkdirAll(version, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, m.name, "config.pbtxt"), []byte(m.config), 0o644); err != nil {
			return err
		}
		if m.file == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(version, m.file), m.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
