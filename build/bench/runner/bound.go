package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// boundHTTP is the case of a Python function as a model: our package nereid against PyTriton.
const boundHTTP = "bound-http against PyTriton"

// boundLoad is its load. The function adds 1, which is the version.
func boundLoad() load {
	return load{boundHTTP, "http", identityInput, [2]string{"add1", "add1"}, "version", []int{1, 16, 64}}
}

// runBound measures a bound function of our package and the same one of PyTriton, with the same Python.
func (b *bench) runBound(ctx context.Context) error {
	if b.alone {
		return errors.New("bound functions have no measurement without PyTriton")
	}
	// The reference's environment has PyTriton, and Python's own library for PyTriton's stub.
	theirs, err := reference(ctx, b.work, "")
	if err != nil {
		return err
	}
	root := filepath.Join(b.work, "bound")
	python := filepath.Join(b.work, "venv", "bin", "python")
	packages, err := unpackWheel(ctx, python, filepath.Join(root, "packages"))
	if err != nil {
		return err
	}
	ours := &program{name: "nereid", env: []string{"PYTHONPATH=" + packages}}
	theirs.name = "pytriton"
	var servers []*server
	defer func() { stopAll(servers) }()
	for _, p := range []*program{ours, theirs} {
		workspace := filepath.Join(root, "workspace-"+p.name)
		if err := os.RemoveAll(workspace); err != nil { // PyTriton takes a new folder only
			return err
		}
		p.argv = []string{python, "build/bench/bound.py", p.name, workspace}
		s, err := p.start(ctx, filepath.Join(root, "none"))
		if err != nil {
			return err
		}
		servers = append(servers, s)
		if err := s.waitModel(ctx, "add1"); err != nil {
			return fmt.Errorf("%s: %w; its log is %s", p.name, err, s.log)
		}
	}
	return b.compareLoads(ctx, []load{boundLoad()}, servers)
}

// unpackWheel unpacks the wheel of make wheel into a folder.
func unpackWheel(ctx context.Context, python, folder string) (string, error) {
	wheels, err := filepath.Glob("build/bin/wheel/nereid-*.whl")
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("want one wheel in build/bin/wheel, found %d; run make wheel", len(wheels))
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index",
		"--no-deps", "--target", folder, wheels[0])
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", wheels[0], err, bytes.TrimSpace(out))
	}
	return folder, nil
}

// waitModel waits until a model is ready. A server may be ready before its bound functions.
func (s *server) waitModel(ctx context.Context, model string) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < time.Minute; settle(ctx, 50*time.Millisecond) {
		if ready, err := c.ModelReady(ctx, model, ""); err == nil && ready {
			return nil
		}
	}
	return fmt.Errorf("the model %s is not ready after a minute", model)
}
