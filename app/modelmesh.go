package app

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"

	"nereid/app/modelmesh"
	"nereid/app/modelmesh/mmesh"
	"nereid/app/options"
	"nereid/engine/device"
)

// modelMesh is the part of the server that ModelMesh drives.
type modelMesh struct {
	runtime  *modelmesh.Runtime
	listener net.Listener
	server   *grpc.Server
}

// openModelMesh adds the repository of ModelMesh's models, and opens the address. It does not serve yet.
func (s *server) openModelMesh() error {
	o := s.c.Catalog.ModelMesh
	if o.Address == "" {
		return nil
	}
	e := &s.c.Engine
	capacity := e.Residency.Host
	if capacity == 0 {
		capacity = device.Host().Memory / 10 * 7
	}
	runtime, err := modelmesh.Open(modelmesh.Options{
		Folder: s.data.Join("modelmesh"), AllowCode: o.AllowCode, Capacity: capacity, LoadThreads: e.LoadThreads,
		Repositories: e.Repositories, LoadTimeout: e.LoadTimeout, Version: "nereid " + Version,
	})
	if err != nil {
		return err
	}
	e.Repositories, e.Yielding = append(slices.Clone(e.Repositories), runtime.Repository()), runtime.Repository()
	l, err := listenModelMesh(o)
	if err != nil {
		return err
	}
	s.fronts.mesh = &modelMesh{runtime: runtime, listener: l, server: grpc.NewServer(
		grpc.ConnectionTimeout(10*time.Second), grpc.MaxConcurrentStreams(64), grpc.MaxRecvMsgSize(1<<20))}
	return nil
}

func listenModelMesh(o options.ModelMesh) (net.Listener, error) {
	if o.Network == "tcp" {
		at := o.Endpoint()
		return at.Open()
	}
	if info, err := os.Lstat(o.Address); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(o.Address) // of a server that was killed; otherwise Listen says what is wrong
	}
	l, err := net.Listen(o.Network, o.Address)
	if err != nil {
		return nil, fmt.Errorf("--modelmesh-address: %w", err)
	}
	return l, nil
}

// startModelMesh serves, when the engine has started.
func (s *server) startModelMesh() {
	m := s.fronts.mesh
	if m == nil {
		return
	}
	m.runtime.Serve(s.engine)
	mmesh.RegisterModelRuntimeServer(m.server, m.runtime)
	s.tasks.spawn(func() error { return m.server.Serve(m.listener) })
	s.log.Info("Started ModelRuntime service of ModelMesh at " + m.listener.Addr().String())
}

// stop ends the service; loads under way are cancelled.
func (m *modelMesh) stop() {
	if m != nil {
		m.server.Stop()
		_ = m.listener.Close() // the server has closed it, unless it never served
	}
}
