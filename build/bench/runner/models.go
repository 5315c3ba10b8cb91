package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modelFolder is a model as it lies in a repository, with one version.
type modelFolder struct {
	name, config string
	file         string // of version 1; "": that folder is empty
	data         []byte
}

// onCPU adds instances on the CPU to a configuration.
func onCPU(config string, count int) string {
	return config + fmt.Sprintf("instance_group { count: %d kind: KIND_CPU }\n", count)
}

// onnxFolder is a model whose version is a copy of an ONNX file.
func onnxFolder(name, config, path string) (modelFolder, error) {
	data, err := os.ReadFile(path)
	return modelFolder{name: name, config: config, file: "model.onnx", data: data}, err
}

// writeRepository makes a repository of these models alone; it replaces what was there.
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

// mlpConfig is the configuration of the 784-512-512-10 network, without a batcher and without instances.
const mlpConfig = `backend: "onnxruntime"
max_batch_size: 64
input { name: "input" data_type: TYPE_FP32 dims: 784 }
output { name: "output" data_type: TYPE_FP32 dims: 10 }
`

// ourRepository writes the models that ours serves for the loads and returns their folder.
func (o *options) ourRepository() (string, error) {
	const config = `backend: "identity"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }
`
	identity := onCPU(config, 1)
	mlp, err := onnxFolder("mlp", onCPU(mlpConfig, 1), o.mlp)
	if err != nil {
		return "", err
	}
	batched := mlp
	batched.name, batched.config = "mlp_db", mlp.config+"dynamic_batching { }\n"
	root := filepath.Join(o.work, "ours")
	return root, writeRepository(root, mlp, batched,
		modelFolder{name: "identity", config: identity},
		modelFolder{name: "big", config: strings.ReplaceAll(identity, "dims: 16", "dims: -1")},
		modelFolder{name: "identity_cached", config: identity + "response_cache { enable: true }\n"})
}
