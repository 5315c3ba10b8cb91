package onnxruntime

import (
	"slices"
	"strconv"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/backend/onnxruntime/onnxfile"
	"nereid/engine/system/affinity"
)

// threading says on which threads a model's sessions compute.
type threading int

const (
	// pooled: the thread pool of the process.
	pooled threading = iota
	// inline: the calling thread only, for light models, where waking other threads costs more than it gains.
	inline
	// own: as many threads as the configuration says.
	own
)

// threadingOf returns own if the configuration has a thread count and global is false. Otherwise the choice depends on
// the work of the model.
func threadingOf(s backend.Spec, info *onnxfile.Info, global bool) threading {
	c := s.Config
	value := func(name string) string { return c.GetParameters()[name].GetStringValue() }
	for _, name := range []string{"intra_op_thread_count", "inter_op_thread_count"} {
		if v := value(name); v != "" && v != "0" {
			if !global {
				return own
			}
			s.Log.Info("parameter has no effect with enable-global-threadpool", "model", s.ModelName, "parameter", name)
		}
	}
	if v := value("execution_mode"); v != "" && v != "0" {
		return pooled // branches in parallel need threads
	}
	if light(info, max(1, int64(c.GetMaxBatchSize()))) {
		return inline
	}
	return pooled
}

// lightWork is the most work of a full batch of a light model, in uses of a weight: a few milliseconds on one core.
const lightWork = 64 << 20

// light reports whether a full batch is little work. The work is known only for models that use each weight once per
// row: without convolutions, recurrence and sequences.
func light(info *onnxfile.Info, rows int64) bool {
	if info.InputRank > 2 || info.Elements > lightWork/rows {
		return false
	}
	for op := range info.Ops {
		if !slices.Contains(oncePerRow, op) {
			return false
		}
	}
	return true
}

// oncePerRow are the operators that use each of their constants once for each row of a matrix.
var oncePerRow = []string{
	"Abs", "Add", "And", "ArgMax", "ArgMin", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat", "Constant", "Div",
	"Dropout", "Elu", "Equal", "Erf", "Exp", "Flatten", "Floor", "Gelu", "Gemm", "Greater", "HardSigmoid", "HardSwish",
	"Identity", "LayerNormalization", "LeakyRelu", "Less", "Log", "LogSoftmax", "MatMul", "Max", "Min", "Mul", "Neg",
	"Not", "Or", "PRelu", "Pow", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Round",
	"Selu", "Sigmoid", "Sign", "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh", "Where",
}

// threads applies a mode. parameter sets the counts of own.
func (o *sessionOptions) threads(mode threading) error {
	switch mode {
	case pooled:
		return capi.DisableThreads(o.pointer())
	case inline:
		if err := o.SetIntraOpNumThreads(1); err != nil {
			return err
		}
		return o.SetInterOpNumThreads(1)
	}
	return o.AddSessionConfigEntry("session.intra_op.allow_spinning", "0")
}

// affinities is the option for the cores of each thread of a session, except the calling thread.
const affinities = "session.intra_op_thread_affinities"

// pinned returns the mode of a session that runs on cores only. A session cannot pin the pool of the process: it gets
// its own threads. nil cores are any.
func pinned(mode threading, settings *Settings, cores []int) threading {
	if mode == pooled && cores != nil && !settings.GlobalThreadPool {
		return own
	}
	return mode
}

// pin makes the session's threads run on cores only; nil cores are any. The session has one thread per core, unless the
// configuration has a thread count. The calling thread is pinned already. Threads that run operators in parallel
// inherit its affinity.
func (o *sessionOptions) pin(s backend.Spec, mode threading, cores []int) error {
	value := func(name string) string { return s.Config.GetParameters()[name].GetStringValue() }
	if cores == nil || mode == inline || value(affinities) != "" {
		return nil
	}
	if mode == pooled {
		s.Log.Warn("a host policy does not hold for the threads of enable-global-threadpool", "model", s.ModelName,
			"cpu-cores", affinity.Format(cores))
		return nil
	}
	threads, _ := strconv.Atoi(value("intra_op_thread_count")) // checked by parameter; 0 if it is not set
	if threads == 0 {
		threads = len(cores)
		if err := o.SetIntraOpNumThreads(threads); err != nil {
			return runtimeError(err)
		}
	}
	if v := value("inter_op_thread_count"); v == "" || v == "0" {
		if err := o.SetInterOpNumThreads(len(cores)); err != nil {
			return runtimeError(err)
		}
	}
	if threads == 1 {
		return nil
	}
	list := make([]string, len(cores))
	for i, n := range cores {
		list[i] = strconv.Itoa(n + 1) // onnxruntime numbers cores from 1
	}
	each := make([]string, threads-1)
	for i := range each {
		each[i] = strings.Join(list, ",")
	}
	return runtimeError(o.AddSessionConfigEntry(affinities, strings.Join(each, ";")))
}
