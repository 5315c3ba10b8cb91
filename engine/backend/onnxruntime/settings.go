package onnxruntime

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Settings are the backend's own, for all models: Triton's --backend-config=onnxruntime,key=value. The zero value is
// what holds without any.
type Settings struct {
	// GlobalThreadPool makes every model compute with the process's pool, also those that name thread counts, which
	// are then without effect. Models that name none use that pool in any case.
	GlobalThreadPool bool
	// IntraOpThreads and InterOpThreads are the sizes of the pool for the work inside an operator and for operators
	// side by side; 0: one thread per core. They count with GlobalThreadPool alone, as in Triton.
	IntraOpThreads, InterOpThreads int
	// OpLibraryFolders may hold libraries of custom operators beside the models' own folders.
	OpLibraryFolders []string
	// OptimizedModelCache keeps every model's optimized graph, as the model parameter optimized_model_cache does for
	// one.
	OptimizedModelCache bool
}

// ErrUnknownSetting is in the chain of Set's error for a key that the backend does not have.
var ErrUnknownSetting = errors.New("not a setting of onnxruntime")

// Set takes one setting by its key on the command line: enable-global-threadpool, intra_op_thread_count and
// inter_op_thread_count are Triton's; op-library-directory (may be given several times) and optimized-model-cache are
// this server's.
func (s *Settings) Set(key, value string) (err error) {
	switch key {
	case "enable-global-threadpool":
		s.GlobalThreadPool, err = truth(value)
	case "optimized-model-cache":
		s.OptimizedModelCache, err = truth(value)
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
		return fmt.Errorf("%q is %w; it has enable-global-threadpool, intra_op_thread_count, inter_op_thread_count, "+
			"op-library-directory and optimized-model-cache", key, ErrUnknownSetting)
	}
	if err != nil {
		return fmt.Errorf("onnxruntime,%s: %w", key, err)
	}
	return nil
}

// maxThreads is more than any machine has; a larger pool is a slip of the finger.
const maxThreads = 1 << 14

func count(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxThreads {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", value, maxThreads)
	}
	return n, nil
}

// truth reads Triton's spelling of a truth value.
func truth(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither \"true\" nor \"false\"", value)
}

// pool returns the sizes of the process's pool of threads; threads is the program's own choice, 0 for one per core.
func (s *Settings) pool(threads int) (intra, inter int) {
	if s.GlobalThreadPool {
		return s.IntraOpThreads, s.InterOpThreads
	}
	return threads, threads
}
