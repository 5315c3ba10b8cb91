package console_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nereid/app/command"
	"nereid/app/command/convert"
	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/app/datadir"
	"nereid/engine"
)

// asConvert makes this test binary run as the command nereid convert.
const asConvert = "NEREID_TEST_AS_CONVERT"

func TestMain(m *testing.M) {
	if os.Getenv(asConvert) == "" {
		os.Exit(m.Run())
	}
	e := command.Env{Program: "nereid", Lookup: os.LookupEnv, Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(convert.Run(context.Background(), &e, os.Args[1:], nil))
}

// newConvertRig is newRig with the real command, which works with the rig's data folder. Without an environment of the
// converters it only gets as far as what is said before one is needed.
func newConvertRig(t *testing.T) *rig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, engine.ModeExplicit, func(o *console.Options) {
		data := o.DataDir
		o.Commands.Convert = func(ctx context.Context, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, exe, append([]string{"--python=/bin/sh"}, args...)...)
			cmd.Env = append(os.Environ(), asConvert+"=1", "NEREID_DATA_DIR="+data)
			return cmd
		}
	})
}

// holdInstallers makes all conversions of ONNX models wait for an installation, as if another process did it.
func holdInstallers(t *testing.T, r *rig) {
	t.Helper()
	folder := filepath.Join(datadir.Python(r.Data), "environments")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(folder, "framework-convert-onnx.lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// newConversion makes a conversion and sends it files.
func newConversion(r *rig, files ...string) (url string) {
	r.t.Helper()
	c := get[api.Conversion](r, 201, "POST", "/api/conversions", nil)
	url = "/api/conversions/" + c.ID
	if c.State != api.ConversionOpen {
		r.t.Fatalf("a new conversion = %+v", c)
	}
	for _, file := range files {
		get[struct{}](r, 204, "PUT", url+"/files/"+file, strings.NewReader("x"))
	}
	return url
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after a minute, it is not so: %s", what)
		}
	}
}

// started says whether the command has made the folder in which it builds the model.
func (r *rig) started(url string) func() bool {
	return func() bool {
		of := filepath.Join(r.Data, "conversions", filepath.Base(url), "models")
		found, err := filepath.Glob(filepath.Join(of, ".nereid-*", "*"))
		return err == nil && len(found) > 0
	}
}

// gone says whether a conversion has left nothing in the data folder.
func (r *rig) gone(url string) func() bool {
	return func() bool {
		_, err := os.Stat(filepath.Join(r.Data, "conversions", filepath.Base(url)))
		return os.IsNotExist(err)
	}
}

func TestConversionsThatCannotStart(t *testing.T) {
	r := newConvertRig(t)
	r.Write("plain/config.pbtxt", `backend: "identity"`)
	r.Write("plain/1/x", "")
	get[api.LoadResult](r, 200, "POST", "/api/models/plain/load", nil)
	url := newConversion(r, "m.onnx")
	for _, tt := range []struct {
		req  api.StartConversion
		code int
		want string
	}{
		{api.StartConversion{Source: "m.onnx", Target: "gguf"}, 400, `the target \"gguf\" is unknown`},
		{api.StartConversion{Source: "m.onnx"}, 400, `the target \"\" is unknown`},
		{api.StartConversion{Model: "nope", Target: "fp16"}, 404, "nope"},
		{api.StartConversion{Model: "../models", Target: "fp16"}, 400, ""},
		{api.StartConversion{Model: "plain", Target: "fp16"}, 501, `\"plain\" has the backend identity`},
		{api.StartConversion{Model: "ready", Target: "int8", SavedRequests: true}, 400, "no saved requests"},
		{api.StartConversion{Source: "other.onnx", Target: "fp16"}, 404, `the file \"other.onnx\" was not sent`},
		{api.StartConversion{Source: "../../../secret", Target: "fp16"}, 400, "is outside"},
		{api.StartConversion{Source: "/etc/passwd", Target: "fp16"}, 400, "is outside"},
		{api.StartConversion{Target: "fp16"}, 400, "is outside"},
		{api.StartConversion{Source: "m.onnx", Target: "int8", Inputs: "../files"}, 400, "is outside"},
		{api.StartConversion{Source: "m.onnx", Target: "onnx", Class: "/etc/code.py:Net"}, 400, "is outside"},
		{api.StartConversion{Source: "m.onnx", Target: "onnx", Class: "net.py:Net"}, 404, "was not sent"},
	} {
		code, body := r.Call("POST", url+"/start", tt.req)
		if code != tt.code || !strings.Contains(string(body), tt.want) {
			t.Errorf("%+v: %d %s, want %d %s", tt.req, code, body, tt.code, tt.want)
		}
	}
	if c := get[api.Conversion](r, 200, "GET", url, nil); c.State != api.ConversionOpen {
		t.Errorf("after what was refused: %+v", c)
	}
	if code, body := r.Call("PUT", url+"/files/..%2fx", strings.NewReader("")); code != 400 {
		t.Errorf("a file outside: %d %s", code, body)
	}
	for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/start"}, {"PUT", "/files/x"}} {
		if code, body := r.Call(call[0], "/api/conversions/nope"+call[1], struct{}{}); code != 404 {
			t.Errorf("%s of an unknown conversion: %d %s", call[0], code, body)
		}
	}
}

// The command ends with an error, which names what the user sent and no folder of the server.
func TestConversionThatFails(t *testing.T) {
	r := newConvertRig(t)
	url := newConversion(r, "engine.plan")
	req := api.StartConversion{Source: "engine.plan", Target: api.ConvertToONNX}
	if c := get[api.Conversion](r, 200, "POST", url+"/start", req); c.State != api.ConversionRunning {
		t.Errorf("started: %+v", c)
	}
	var c api.Conversion
	eventually(t, "the conversion has ended", func() bool {
		c = get[api.Conversion](r, 200, "GET", url, nil)
		return c.State != api.ConversionRunning
	})
	want := "engine.plan cannot be converted: a TensorRT engine holds code for one GPU and no graph."
	if c.State != api.ConversionFailed || !strings.HasPrefix(c.Reason, want) || c.Report != nil || c.Path != "" {
		t.Errorf("it is %+v, want %q", c, want)
	}
	for _, call := range [][2]string{{"POST", "/start"}, {"PUT", "/files/x"}} {
		if code, body := r.Call(call[0], url+call[1], req); code != 409 || !strings.Contains(string(body), "already") {
			t.Errorf("%s after its end: %d %s", call[0], code, body)
		}
	}
	newConversion(r) // removes what has ended
	if code, _ := r.Call("GET", url, nil); code != 404 || !r.gone(url)() {
		t.Errorf("the conversion that ended is still there: %d", code)
	}
}

func TestTwoConversionsRunAndAreCancelled(t *testing.T) {
	r := newConvertRig(t)
	holdInstallers(t, r)
	first, second := newConversion(r, "m.onnx"), ""
	get[api.Conversion](r, 200, "POST", first+"/start", api.StartConversion{Source: "m.onnx", Target: "fp16"})
	second = newConversion(r)
	get[api.Conversion](r, 200, "POST", second+"/start", api.StartConversion{Model: "ready", Target: "simplify"})
	for _, url := range []string{first, second} {
		eventually(t, url+" runs", r.started(url))
	}
	code, body := r.Call("POST", "/api/conversions", nil)
	if code != 409 || !strings.Contains(string(body), "2 conversions are running") {
		t.Errorf("a third conversion: %d %s", code, body)
	}
	get[struct{}](r, 204, "DELETE", first, nil)
	if code, _ := r.Call("GET", first, nil); code != 404 {
		t.Errorf("a cancelled conversion = %d", code)
	}
	eventually(t, "what was cancelled is gone", r.gone(first))
	newConversion(r) // there is room again
	if c := get[api.Conversion](r, 200, "GET", second, nil); c.State != api.ConversionRunning {
		t.Errorf("the other conversion: %+v", c)
	}
}

// The console's end, in the rig, ends the command; a new console removes what is left.
func TestConversionsEndWithTheConsole(t *testing.T) {
	r := newConvertRig(t)
	holdInstallers(t, r)
	url := newConversion(r, "m.onnx")
	get[api.Conversion](r, 200, "POST", url+"/start", api.StartConversion{Source: "m.onnx", Target: "fp16"})
	eventually(t, "it runs", r.started(url))
	if err := r.Console.Close(); err != nil {
		t.Fatal(err)
	}
	left := 0
	err := filepath.WalkDir(filepath.Join(r.Data, "conversions", filepath.Base(url), "models"),
		func(_ string, d fs.DirEntry, err error) error {
			left++
			return err
		})
	if err != nil || left != 1 {
		t.Errorf("the command left %d entries, %v; want the empty folder", left, err)
	}
}

func TestConsoleWithoutConverter(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	if code, body := r.Call("POST", "/api/conversions", nil); code != 501 ||
		!strings.Contains(string(body), "converts no models") {
		t.Errorf("a conversion = %d %s", code, body)
	}
}
