package onnxruntime

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// sessionOptions are the options of one session.
type sessionOptions struct {
	*ort.SessionOptions
}

// shrinkage is the only parameter that is a run option.
const shrinkage = "memory.enable_memory_arena_shrinkage"

// runOptions returns the run options of a model, nil if there are none.
func runOptions(c *inferencepb.ModelConfig) map[string]string {
	if v := c.GetParameters()[shrinkage].GetStringValue(); v != "" {
		return map[string]string{shrinkage: v}
	}
	return nil
}

func (o *sessionOptions) close() { _ = o.Destroy() } // the only error is a second Destroy

// pointer returns the OrtSessionOptions, which is the only field of the struct. A test checks the layout.
func (o *sessionOptions) pointer() unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(o.SessionOptions))
}

// inspectionSession makes a session that is used only to read its signature: it loads faster and must not run.
func inspectionSession(ctx context.Context, l *capi.Library, s backend.Spec, path string, mode threading,
	settings *Settings) (*capi.Session, error) {
	o, err := newSessionOptions(s, mode, settings)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := errors.Join(
		o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelDisableAll),
		o.AddSessionConfigEntry("session.disable_prepacking", "1"),
	); err != nil {
		return nil, err
	}
	return o.newSession(ctx, l, path)
}

// newSessionOptions returns the session options that a model's configuration sets. The caller closes them.
func newSessionOptions(s backend.Spec, mode threading, settings *Settings) (_ *sessionOptions, err error) {
	so, err := ort.NewSessionOptions()
	if err != nil {
		return nil, status.Errorf(status.Internal, "%w", err)
	}
	o := &sessionOptions{SessionOptions: so}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if err := o.SetGraphOptimizationLevel(graphLevel(s.Config)); err != nil {
		return nil, runtimeError(err)
	}
	if err := o.threads(mode); err != nil {
		return nil, runtimeError(err)
	}
	if sharesMemory(s.Config) {
		if err := o.AddSessionConfigEntry(sharedMemory, "1"); err != nil {
			return nil, runtimeError(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config.GetParameters())) {
		if err := o.parameter(s, name, s.Config.GetParameters()[name].GetStringValue(), mode == own); err != nil {
			return nil, err
		}
	}
	if err := o.customOps(s, settings.OpLibraryFolders); err != nil {
		return nil, err
	}
	return o, nil
}

// sharedMemory is the session's entry for the memory that all models share.
const sharedMemory = "session.use_env_allocators"

// sharesMemory reports whether a model's runs use the memory that all models share (capi/memory.c). A configuration
// that says something about the arena gets ONNX Runtime's own allocators.
func sharesMemory(c *inferencepb.ModelConfig) bool {
	p := c.GetParameters()
	return p["enable_mem_arena"].GetStringValue() == "" && p[shrinkage].GetStringValue() == ""
}

// graphLevel returns the level for optimization.graph.level, with Triton's meaning.
func graphLevel(c *inferencepb.ModelConfig) ort.GraphOptimizationLevel {
	switch c.GetOptimization().GetGraph().GetLevel() {
	case -1:
		return ort.GraphOptimizationLevelEnableBasic
	case 1:
		return ort.GraphOptimizationLevelEnableExtended
	case 2:
		return ort.GraphOptimizationLevelDisableAll
	}
	return ort.GraphOptimizationLevelEnableAll
}

// otherParameters are the parameters that are not options of a session.
var otherParameters = []string{
	"share_session_between_instances", shrinkage, isolationParameter, optimizedParameter, "cudnn_conv_algo_search",
	"gpu_mem_limit", "arena_extend_strategy", "do_copy_in_default_stream",
}

func (o *sessionOptions) parameter(s backend.Spec, name, value string, ownThreads bool) error {
	switch name {
	case "intra_op_thread_count":
		return o.number(name, value, func(n int) error {
			if ownThreads && n > 0 {
				return o.SetIntraOpNumThreads(n)
			}
			return nil
		})
	case "inter_op_thread_count":
		return o.number(name, value, func(n int) error {
			if ownThreads && n > 0 {
				return o.SetInterOpNumThreads(n)
			}
			return nil
		})
	case "execution_mode":
		switch n, err := count(value); {
		case err != nil:
			return status.Errorf(status.InvalidArg, "parameter %q is %q, want 0 (sequential) or 1 (parallel)", name,
				value)
		case n == 0:
			return runtimeError(o.SetExecutionMode(ort.ExecutionModeSequential))
		case n == 1:
			return runtimeError(o.SetExecutionMode(ort.ExecutionModeParallel))
		default:
			return status.Errorf(status.InvalidArg,
				"Invalid configuration value provided. Expected values for execution_mode are 0 or 1 but got %d .", n)
		}
	case "enable_mem_arena":
		return o.boolean(name, value, o.SetCpuMemArena)
	case "enable_mem_pattern":
		return o.boolean(name, value, o.SetMemPattern)
	}
	switch {
	case strings.HasPrefix(name, "session.") || strings.HasPrefix(name, "ep."):
		if err := o.AddSessionConfigEntry(name, value); err != nil {
			return status.Errorf(status.InvalidArg, "parameter %q: %w", name, err)
		}
	case isLimit(name):
		s.Log.Warn("the parameter limits processes, and this model runs in the server; "+
			"the parameter isolation with the value process changes that", "model", s.ModelName, "parameter", name)
	case !slices.Contains(otherParameters, name):
		s.Log.Info("parameter has no effect in onnxruntime", "model", s.ModelName, "parameter", name)
	}
	return nil
}

func (o *sessionOptions) number(name, value string, set func(int) error) error {
	n, err := count(value)
	if err != nil {
		return status.Errorf(status.InvalidArg, "parameter %q is %q, want a number from 0 to %d", name, value,
			maxThreads)
	}
	return runtimeError(set(n))
}

func (o *sessionOptions) boolean(name, value string, set func(bool) error) error {
	on, err := parseBool(value)
	if err != nil {
		return status.Errorf(status.InvalidArg, "parameter %q: %w", name, err)
	}
	return runtimeError(set(on))
}

// newSession loads a model file. A load that has started does not react to ctx.
func (o *sessionOptions) newSession(ctx context.Context, l *capi.Library, path string) (*capi.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	session, err := l.NewSession(path, o.pointer())
	if err != nil {
		return nil, runtimeError(err)
	}
	return session, nil
}

// runtimeError returns an error with the code Internal. An error that has a code is returned as it is.
func runtimeError(err error) error {
	var coded *status.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return status.Errorf(status.Internal, "%w", err)
}

// modelPath checks and returns the model's file: default_model_filename or model.onnx in the version's folder. If that
// is a folder, the file is model.onnx inside it.
func modelPath(s backend.Spec) (string, *onnxfile.Info, error) {
	name := s.Config.GetDefaultModelFilename()
	if name == "" {
		name = "model.onnx"
	}
	if !filepath.IsLocal(name) {
		return "", nil, status.Errorf(status.InvalidArg,
			"default_model_filename %q must name a file in the version's folder", name)
	}
	path := filepath.Join(s.VersionFolder, name)
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "model.onnx")
		info, err = os.Stat(path)
	}
	if err != nil {
		return "", nil, status.Errorf(status.Internal, "failed to stat file %s", path)
	}
	if !info.Mode().IsRegular() {
		return "", nil, status.Errorf(status.InvalidArg, "%s is not a regular file", path)
	}
	found, err := checkFile(path, s)
	return path, found, err
}
