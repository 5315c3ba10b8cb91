package main

import (
	"context"
	"encoding/json"
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

	"nereid/engine/worker/workertest"
)

// recoveryModel ends its process as it is told to. Of who is killed it notes that it executes.
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
	// endlessLimit is how long the model that loops may execute.
	endlessLimit = time.Second
	// recoveryMemory is what the server and its models have where the control group can be made.
	recoveryMemory = 1 << 30
	// What the model is asked for, where it does not end by itself.
	sleeper, hog = 2, 4
)

// deaths are the ways in which a model's process ends.
var deaths = []struct {
	name, model string
	what        int
	until       time.Duration // of the time to the failure, what belongs to the request
}{
	{"SIGSEGV", "mortal", 1, 0},
	{"kill -9", "mortal", sleeper, 0},
	{"os._exit", "mortal", 3, 0},
	{"out of memory", "mortal", hog, 0},
	{"an endless loop, after its limit", "endless", 5, endlessLimit},
}

// recoveryPoints are the times of the ends of processes, by deaths, in s.
type recoveryPoints struct {
	failed, back [][]float64
	// killed is how long after kill -9 of the server its models' processes are gone, in s.
	killed []float64
}

// measureRecovery ends processes of models, and servers, on purpose.
func measureRecovery(ctx context.Context, o options, rep *report) error {
	root := filepath.Join(o.work, "recovery")
	code := []byte(recoveryModel)
	limit := fmt.Sprintf("parameters { key: \"EXECUTE_TIMEOUT_SECONDS\" value { string_value: \"%d\" } }\n", endlessLimit/time.Second)
	unbound := fmt.Sprintf("parameters { key: \"MEMORY_LIMIT_BYTE_SIZE\" value { string_value: \"%d\" } }\n", int64(1)<<50)
	if err := writeRepository(root, modelFolder{"mortal", recoveryConfig + unbound, "model.py", code},
		modelFolder{"endless", recoveryConfig + limit, "model.py", code}, modelFolder{"other", recoveryConfig, "model.py", code}); err != nil {
		return err
	}
	interpreter, err := filepath.Abs(convPython)
	if err != nil {
		return err
	}
	p := nereid(o.binary, o.work)
	p.argv = append(p.argv, "--backend-config=python,python="+interpreter)
	group, err := workertest.NewGroup("nereid-bench-"+strconv.Itoa(os.Getpid()), recoveryMemory)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: no process runs out of memory:", err)
	} else {
		defer removeGroup(group)
		p.argv = append([]string{"sh", "-c", `echo 0 >"$0" && exec "$@"`, group.Procs()}, p.argv...)
	}
	points := &rep.recovery
	points.failed, points.back = make([][]float64, len(deaths)), make([][]float64, len(deaths))
	for range o.repeat {
		s, err := p.start(ctx, root)
		if err != nil {
			return err
		}
		err = recoverEach(ctx, s, root, group, points)
		if err == nil {
			err = killServer(ctx, s, points)
		}
		s.stop()
		if err != nil {
			return fmt.Errorf("recovery: %w", err)
		}
	}
	return ctx.Err()
}

func removeGroup(g workertest.Group) {
	for range 500 { // processes that were killed take a moment to go
		if !errors.Is(g.Remove(), syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// recoverEach ends a process in each way once. group: "" where no process can run out of memory.
func recoverEach(ctx context.Context, s *server, root string, group workertest.Group, points *recoveryPoints) error {
	other, err := askPID(ctx, s, "other", 0)
	if err != nil {
		return err
	}
	for i, d := range deaths {
		if d.what == hog && group == "" {
			continue
		}
		before, err := askPID(ctx, s, d.model, 0)
		if err != nil {
			return err
		}
		ends := func(context.Context) (time.Time, error) { return time.Now(), nil } // with the request
		switch d.what {
		case sleeper:
			executing := filepath.Join(root, d.model, "1", "executing")
			ends = func(ctx context.Context) (time.Time, error) { return kill(ctx, executing, before) }
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
		points.failed[i] = append(points.failed[i], (failed - d.until).Seconds())
		points.back[i] = append(points.back[i], time.Since(began).Seconds())
		if now, err := askPID(ctx, s, "other", 0); err != nil || now != other || after == before {
			return fmt.Errorf("%s: the other model's process is %d and was %d, the model's %d and was %d: %w", d.name, now, other, after, before, err)
		}
	}
	return nil
}

// endProcess sends the request that ends a process, or is ended with it, and returns how long after the end it failed. ends
// returns when that was.
func endProcess(ctx context.Context, s *server, model string, what int, ends func(context.Context) (time.Time, error)) (time.Duration, error) {
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

// kill ends the process that executes the request, once it does.
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

// takenByKernel waits until the kernel has ended a process of a group.
func takenByKernel(ctx context.Context, g workertest.Group) (time.Time, error) {
	before, err := g.Kills()
	for ; err == nil; settle(ctx, time.Millisecond) {
		var now int64
		if now, err = g.Kills(); now > before {
			return time.Now(), nil
		}
		if ctx.Err() != nil {
			return time.Time{}, errors.New("the kernel ended no process")
		}
	}
	return time.Time{}, err
}

// askPID sends a request and returns the number of the process that answered.
func askPID(ctx context.Context, s *server, model string, what int) (int, error) {
	text, err := post(ctx, s, "/v2/models/"+model+"/infer", fmt.Sprintf(`{"inputs":[{"name":"WHAT","shape":[1],"datatype":"INT32","data":[%d]}]}`, what))
	if err != nil {
		return 0, err
	}
	var answer struct{ Outputs []struct{ Data []int } }
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, err
	}
	return answer.Outputs[0].Data[0], nil
}

// killServer kills the server and waits until its models' processes are gone.
func killServer(ctx context.Context, s *server, points *recoveryPoints) error {
	var pids []int
	for _, model := range []string{"mortal", "endless", "other"} {
		pid, err := askPID(ctx, s, model, 0)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	began := time.Now()
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	for len(pids) > 0 {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("processes %v are left a minute after kill -9 of the server", pids)
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
		time.Sleep(time.Millisecond)
	}
	points.killed = append(points.killed, time.Since(began).Seconds())
	return nil
}

func (p *recoveryPoints) bars() []bar {
	var list []bar
	for i, d := range deaths {
		if len(p.failed) > i && len(p.failed[i]) > 0 {
			list = append(list, bar{what: d.name + ", the request fails after", got: median(p.failed[i]).median, limit: 1, unit: "s"},
				bar{what: d.name + ", the model answers again after", got: median(p.back[i]).median, limit: 2, unit: "s"})
		}
	}
	if len(p.killed) > 0 {
		list = append(list, bar{what: "kill -9 of the server, its models' processes are gone after", got: median(p.killed).median, limit: 2, unit: "s"})
	}
	return list
}

func (p *recoveryPoints) markdown() string {
	if len(p.killed) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nThe process of a Python model ends:\n\n| by | its request fails after, s | the next is answered after that, s |\n|---|---|---|\n")
	for i, d := range deaths {
		if len(p.failed[i]) > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", d.name, median(p.failed[i]).text("%.3f"), median(p.back[i]).text("%.3f"))
		}
	}
	fmt.Fprintf(&b, "\nAfter kill -9 of the server, its models' processes are gone in %s s.\n", median(p.killed).text("%.3f"))
	return b.String()
}
