package onnxruntime

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"nereid/engine/worker/process"
)

// Settings are the backend's settings for all models: Triton's --backend-config=onnxruntime,key=value. The zero value
// contains the defaults.
type Settings struct {
	// GlobalThreadPool makes all models compute on the thread pool of the process; their thread counts have no effect.
	// Models without thread counts always use the pool.
	GlobalThreadPool bool
	// IntraOpThreads and InterOpThreads are the sizes of the pool, for work inside an operator and for operators that
	// run in parallel. 0: one thread per core. As in Triton, they have no effect without GlobalThreadPool.
	IntraOpThreads, InterOpThreads int
	// OpLibraryFolders are allowed for libraries of custom operators, as the models' folders always are.
	OpLibraryFolders []string
	// OptimizedModelCache stores the optimized graphs of all models. The model parameter optimized_model_cache has
	// precedence.
	OptimizedModelCache bool
	// Limits are those of the processes of models that run in processes. The models' parameters have precedence.
	Limits process.Limits
}

// ErrUnknownSetting is wrapped by Set's error for an unknown key.
var ErrUnknownSetting = errors.New("not a setting of onnxruntime")

// Set sets one setting by its key on the command line. Triton's keys are enable-global-threadpool,
// intra_op_thread_count and inter_op_thread_count; this server's are op-library-directory, which may be repeated,
// optimized-model-cache, and those of process.Limits.
func (s *Settings) Set(key, value string) (err error) {
	switch key {
	case "enable-global-threadpool":
		s.GlobalThreadPool, err = parseBool(value)
	case "optimized-model-cache":
		s.OptimizedModelCache, err = parseBool(value)
	case "intra_op_thread_count":
		s.IntraOpThreads, err = count(value)
	case "inter_op_thread_count":
		s.InterOpThreads, err = count(value)
	case "op-library-directory":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("onnxruntime,%s: %q is not an absolute path", key, value)
		}
		s.OpLibraryFolders = append(s.OpLibraryFolders, filepath.Clean(value))
	default:
		var known bool
		if known, err = s.Limits.Set(key, value); !known {
			return fmt.Errorf("%q is %w; it has enable-global-threadpool, intra_op_thread_count, "+
				"inter_op_thread_count, op-library-directory, optimized-model-cache, memory-limit-byte-size, "+
				"open-files-limit, processes-limit, execute-timeout-seconds, abandoned-timeout-seconds and "+
				"unload-timeout-seconds",
				key, ErrUnknownSetting)
		}
	}
	if err != nil {
		return fmt.Errorf("onnxruntime,%s: %w", key, err)
	}
	return nil
}

// maxThreads is the largest size of a pool. It is more than most machines have cores. The time that ONNX Runtime takes
// to start a pool grows with the square of its size.
const maxThreads = 1 << 11

func count(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxThreads {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", value, maxThreads)
	}
	return n, nil
}

// parseBool reads a boolean as Triton does.
func parseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither \"true\" nor \"false\"", value)
}

// pool returns the sizes of the process's thread pool. threads is the program's choice, 0 for one per core.
func (s *Settings) pool(threads int) (intra, inter int) {
	if s.GlobalThreadPool {
		return s.IntraOpThreads, s.InterOpThreads
	}
	return threads, threads
}
