package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nereid/engine/client"
	"nereid/engine/worker/workertest"
)

// recoveryModel ends its process in the way that the request names. Before it is killed it writes a file that says that
// it executes.
const recoveryModel = `import os, signal, time

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(int(pb.get_input_tensor_by_name(r, "WHAT").as_numpy()[0])) for r in requests]

    def answer(self, what):
        if what == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == 2:
            open(os.path.join(os.path.dirname(__file__), "executing"), "w").close()
            time.sleep(3600)
        if what == 3:
            os._exit(3)
        if what == 4:
            hog = [np.ones(1 << 24, np.uint8) for _ in range(1 << 12)]
        while what == 5:
            pass
        return pb.InferenceResponse([pb.Tensor("PID", np.array([os.getpid()], np.int64))])
`

const (
	recoveryConfig = `backend: "python"
input { name: "WHAT" data_type: TYPE_INT32 dims: 1 }
output { name: "PID" data_type: TYPE_INT64 dims: 1 }
`
	// endlessLimit is how long the model with the endless loop may execute.
	endlessLimit = time.Second
	// recoveryMemory is the memory of the server and its models, if the control group can be made.
	recoveryMemory = 1 << 30
	// The requests that need help to end the process.
	sleeper, hog = 2, 4
)

// deaths are the ways in which a model's process ends.
var deaths = []struct {
	name, model string
	what        int32
	until       time.Duration // the part of the time to the failure that belongs to the request
}{
	{"SIGSEGV", "mortal", 1, 0},
	{"kill -9", "mortal", sleeper, 0},
	{"os._exit", "mortal", 3, 0},
	{"out of memory", "mortal", hog, 0},
	{"an endless loop, after its limit", "endless", 5, endlessLimit},
}

var (
	failsAfter = figure{"the request fails after, s", "%.3f"}
	backAfter  = figure{"the model answers again after that, s", "%.3f"}
	goneAfter  = figure{"its models' processes are gone after, s", "%.3f"}
)

// runRecovery ends processes of models, and servers, on purpose.
func (b *bench) runRecovery(ctx context.Context) error {
	root := filepath.Join(b.work, "recovery")
	model := func(name, parameter string, value int64) modelFolder {
		config := recoveryConfig
		if parameter != "" {
			config += fmt.Sprintf("parameters { key: %q value { string_value: \"%d\" } }\n", parameter, value)
		}
		return modelFolder{name, config, "model.py", []byte(recoveryModel)}
	}
	err := writeRepository(root, model("mortal", "MEMORY_LIMIT_BYTE_SIZE", 1<<50),
		model("endless", "EXECUTE_TIMEOUT_SECONDS", int64(endlessLimit/time.Second)), model("other", "", 0))
	if err != nil {
		return err
	}
	interpreter, err := filepath.Abs(venvPython)
	if err != nil {
		return err
	}
	p := nereid(b.binary, b.work, "--backend-config=python,python="+interpreter)
	group, err := workertest.NewGroup("nereid-bench-"+strconv.Itoa(os.Getpid()), recoveryMemory)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: no process runs out of memory:", err)
	} else {
		defer removeGroup(group)
		p.argv = append([]string{"sh", "-c", `echo 0 >"$0" && exec "$@"`, group.Procs()}, p.argv...)
	}
	for range b.repeat {
		s, err := p.start(ctx, root)
		if err != nil {
			return err
		}
		err = b.recoverEach(ctx, s, root, group)
		if err == nil {
			err = b.killServer(ctx, s)
		}
		s.stop()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func removeGroup(g workertest.Group) {
	for range 500 { // killed processes need a moment to exit
		if !errors.Is(g.Remove(), syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// recoverEach ends a process in each way once. Without a group no process can run out of memory.
func (b *bench) recoverEach(ctx context.Context, s *server, root string, group workertest.Group) error {
	other, err := askPID(ctx, s, "other", 0)
	if err != nil {
		return err
	}
	for _, d := range deaths {
		if d.what == hog && group == "" {
			continue
		}
		before, err := askPID(ctx, s, d.model, 0)
		if err != nil {
			return err
		}
		ends := func(context.Context) (time.Time, error) { return time.Now(), nil } // the request ends it
		switch d.what {
		case sleeper:
			executing := filepath.Join(root, d.model, "1", "executing")
			ends = func(ctx context.Context) (time.Time, error) { return kill(ctx, executing, int(before)) }
		case hog:
			ends = func(ctx context.Context) (time.Time, error) { return takenByKernel(ctx, group) }
		}
		failed, err := endProcess(ctx, s, d.model, d.what, ends)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		began := time.Now()
		after, err := askPID(ctx, s, d.model, 0)
		for err != nil && time.Since(began) < time.Minute {
			after, err = askPID(ctx, s, d.model, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		b.results.add("recovery from "+d.name, 0, value{failsAfter, (failed - d.until).Seconds()},
			value{backAfter, time.Since(began).Seconds()})
		if now, err := askPID(ctx, s, "other", 0); err != nil || now != other || after == before {
			return fmt.Errorf("%s: the other model's process is %d and was %d, the model's %d and was %d: %w",
				d.name, now, other, after, before, err)
		}
	}
	return nil
}

// endProcess sends a request during which the process ends, and returns how long after that end the request failed.
// ends returns when the process ended.
func endProcess(ctx context.Context, s *server, model string, what int32,
	ends func(context.Context) (time.Time, error)) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var end time.Time
	done := make(chan error, 1)
	go func() {
		var err error
		end, err = ends(ctx)
		done <- err
	}()
	pid, err := askPID(ctx, s, model, what)
	failed := time.Now()
	if derr := <-done; derr != nil {
		return 0, derr
	}
	if err == nil {
		return 0, fmt.Errorf("the request was answered by process %d", pid)
	}
	if !strings.Contains(err.Error(), "process") {
		return 0, fmt.Errorf("the request failed for another reason: %w", err)
	}
	return max(0, failed.Sub(end)), nil
}

// kill kills the process as soon as it executes the request.
func kill(ctx context.Context, executing string, pid int) (time.Time, error) {
	for ; ; settle(ctx, time.Millisecond) {
		if os.Remove(executing) == nil {
			return time.Now(), syscall.Kill(pid, syscall.SIGKILL)
		}
		if ctx.Err() != nil {
			return time.Time{}, errors.New("the request was not executed")
		}
	}
}

// takenByKernel waits until the kernel has killed a process of the group.
func takenByKernel(ctx context.Context, g workertest.Group) (time.Time, error) {
	before, err := g.Kills()
	for ; err == nil; settle(ctx, time.Millisecond) {
		var now int64
		if now, err = g.Kills(); now > before {
			return time.Now(), nil
		}
		if ctx.Err() != nil {
			return time.Time{}, errors.New("the kernel killed no process")
		}
	}
	return time.Time{}, err
}

// askPID sends a request and returns the number of the process that answered.
func askPID(ctx context.Context, s *server, model string, what int32) (int64, error) {
	return ask[int64](ctx, s, model, client.Of("WHAT", []int32{what}))
}

// killServer kills the server and waits until its models' processes are gone.
func (b *bench) killServer(ctx context.Context, s *server) error {
	var pids []int
	for _, model := range []string{"mortal", "endless", "other"} {
		pid, err := askPID(ctx, s, model, 0)
		if err != nil {
			return err
		}
		pids = append(pids, int(pid))
	}
	began := time.Now()
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	for len(pids) > 0 {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("processes %v still run a minute after kill -9 of the server", pids)
		}
		pids = slices.DeleteFunc(pids, hasExited)
		time.Sleep(time.Millisecond)
	}
	b.results.add("recovery from kill -9 of the server", 0, value{goneAfter, time.Since(began).Seconds()})
	return nil
}
