package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The cases of a backend library, identity.c.
const (
	libraryHTTP   = "library-http"
	libraryWorker = "library-worker against ONNX Runtime in a process"
)

// libraryLoads are the load on both servers, and that on two models of ours.
func libraryLoads() (both, ours load) {
	both = load{libraryHTTP, "http", identityInput, [2]string{"library", "library"}, "identity", []int{1, 16, 64}}
	ours = load{libraryWorker, "http", identityInput, [2]string{"library", "onnx"}, "identity", []int{1, 16, 64}}
	return both, ours
}

// runLibrary measures a backend library. Ours runs it in a process, the reference in the server.
func (b *bench) runLibrary(ctx context.Context) error {
	root := filepath.Join(b.work, "library")
	backends := filepath.Join(root, "backends")
	if err := compileLibrary(ctx, filepath.Join(backends, "bench_identity")); err != nil {
		return err
	}
	folders := []string{filepath.Join(root, "ours"), filepath.Join(root, "theirs")}
	config := onCPU(pythonTensors+"dynamic_batching { }\n", 1)
	library := modelFolder{name: "library", config: "backend: \"bench_identity\"\n" + config}
	onnx, err := onnxFolder("onnx", "backend: \"onnxruntime\"\n"+config+
		`parameters { key: "isolation" value { string_value: "process" } }`+"\n",
		"models-sample/identity_fp32/1/model.onnx")
	if err != nil {
		return err
	}
	if err := writeRepository(folders[0], library, onnx); err != nil {
		return err
	}
	if err := writeRepository(folders[1], library); err != nil {
		return err
	}
	programs, err := b.programs(ctx)
	if err != nil {
		return err
	}
	for _, p := range programs {
		const option = "--backend-directory="
		p.argv = slices.DeleteFunc(p.argv, func(arg string) bool { return strings.HasPrefix(arg, option) })
		p.argv = append(p.argv, option+backends)
	}
	servers, err := startAll(ctx, programs, folders)
	if err != nil {
		return err
	}
	defer stopAll(servers)
	both, ours := libraryLoads()
	if err := b.compareLoads(ctx, []load{both}, servers); err != nil {
		return err
	}
	return b.compareLoads(ctx, []load{ours}, []*server{servers[0], servers[0]})
}

// compileLibrary compiles identity.c into a folder of backends.
func compileLibrary(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-Ibuild/conformance/triton",
		"build/bench/identity.c", "-o", filepath.Join(folder, "libtriton_bench_identity.so"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("identity.c: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
