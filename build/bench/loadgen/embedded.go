package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime"
	"nereid/engine/client"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// startEngine serves a repository in this process, without any port.
func startEngine(ctx context.Context, repository string) (*engine.Engine, error) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.NumCPU() + 2) // as the server does
	}
	eng, err := engine.New(engine.Options{ModelOptions: engine.ModelOptions{
		Repositories: []string{repository},
		Backends:     []backend.Backend{onnxruntime.New(onnxruntime.Options{})},
	}})
	if err != nil {
		return nil, err
	}
	if err := eng.Start(ctx); err != nil {
		eng.Close(ctx)
		return nil, err
	}
	return eng, nil
}

// engineSender calls a model in this process through the Go API.
type engineSender struct {
	eng     *engine.Engine
	model   string
	in      []client.Tensor
	outputs []client.Tensor // of the last response
}

// exchange calls the model. The body is that of the first output.
func (s *engineSender) exchange(ctx context.Context) ([]byte, error) {
	r := infer.New()
	defer r.Release()
	r.ModelName = s.model
	for _, t := range s.in {
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: t.Name, DataType: t.DataType, Shape: t.Shape, Data: t.Data})
	}
	if err := s.eng.Infer(ctx, r); err != nil {
		return nil, err
	}
	resp, err := r.Next(ctx)
	if err != nil {
		return nil, err
	}
	defer resp.Release()
	if resp.Err != nil {
		return nil, resp.Err
	}
	s.outputs = nil
	for _, t := range resp.Outputs {
		s.outputs = append(s.outputs, client.Tensor{Name: t.Name, DataType: t.DataType, Shape: slices.Clone(t.Shape),
			Data: bytes.Clone(t.Data)})
	}
	if len(s.outputs) == 0 {
		return nil, errors.New("a response without outputs")
	}
	return s.outputs[0].Data, nil
}

func (s *engineSender) decode([]byte) (*client.Response, error) {
	return &client.Response{Model: s.model, Outputs: s.outputs}, nil
}

func (s *engineSender) close() {}
