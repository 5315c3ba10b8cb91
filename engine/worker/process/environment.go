package process

import (
	"os"
	"slices"
	"strings"
)

// passed are the variables of the server's environment that its models' processes get. A star at the end stands for any
// text, but see secretWords. The list has what interpreters, C libraries and the libraries of models read, and nothing
// that is commonly a secret.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD", "TERM", "TZ", "TZDIR", "LANG", "LANGUAGE", "LC_*",
	"TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES", "MALLOC_*", "TCMALLOC_*", "JEMALLOC_*",
	"PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "NUMBA_*", "MPLCONFIGDIR", "MPLBACKEND",
	"OMP_*", "GOMP_*", "KMP_*", "MKL_*", "DNNL_*", "ONEDNN_*", "OPENBLAS_*", "BLIS_*", "NUMEXPR_*", "OPENCV_*",
	"CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_*", "NCCL_*", "CUPY_*", "NVTE_*", "TENSORRT_*", "TRT_*",
	"HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "ZE_*", "SYCL_*", "ONEAPI_*",
	"TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "ATEN_*", "XLA_*", "JAX_*", "KERAS_BACKEND", "KERAS_HOME",
	"TF_CPP_*", "TF_ENABLE_*", "TF_DISABLE_*", "TF_NUM_*", "TF_GPU_*", "TF_XLA_*", "TF_FORCE_*", "TF_CUDNN_*",
	"TF_DETERMINISTIC_*", "TF_USE_*", "TFHUB_CACHE_DIR",
	"ORT_*", "OPENVINO_*", "OV_*", "INTEL_OPENVINO_DIR", "VLLM_*", "TOKENIZERS_*", "TRANSFORMERS_*", "SENTENCE_*",
	"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT",
	"NLTK_DATA", "TRITON_CACHE_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"NO_PROXY", "no_proxy", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR",
}

// proxies are passed to processes unless they have a password. Installers always get them.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// installers are the variables that only installers of packages get.
var installers = []string{
	"PIP_*", "UV_*", "CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS",
	"PKG_CONFIG_PATH", "CMAKE_*", "CARGO_HOME", "RUSTUP_HOME", "RUSTFLAGS", "SOURCE_DATE_EPOCH",
}

// secretWords are parts of names that no entry with a star matches.
var secretWords = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY"}

// quiet keeps ONNX Runtime's Python package from reporting its use to its maker.
const quiet = "ORT_DISABLE_TELEMETRY=1"

// Environ returns the part of an environment that models' processes get: the variables of a fixed list, and those with
// more names. A name of more may end with a star, which stands for any text. It adds quiet, unless the variable is set.
func Environ(all, more []string) []string {
	kept := slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return !matches(more, name, false) && !matches(passed, name, true) &&
			(!slices.Contains(proxies, name) || strings.Contains(value, "@"))
	})
	if name, _, _ := strings.Cut(quiet, "="); slices.Contains(names(kept), name) {
		return kept
	}
	return append(kept, quiet)
}

// InstallerEnviron is Environ for a program that installs packages. It also gets the proxies and the settings of pip,
// uv and compilers. Packages whose source is built may run any code, and see them too.
func InstallerEnviron(more []string) []string {
	own := slices.DeleteFunc(names(os.Environ()), func(n string) bool { return !matches(installers, n, true) })
	return Environ(os.Environ(), slices.Concat(more, proxies, own))
}

// Withheld returns the names of the variables that Environ leaves out, sorted.
func Withheld(all, more []string) []string {
	left := names(Environ(all, more))
	return slices.Sorted(slices.Values(slices.DeleteFunc(names(all), func(n string) bool {
		return slices.Contains(left, n)
	})))
}

func names(environ []string) []string {
	all := make([]string, 0, len(environ))
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		all = append(all, name)
	}
	return all
}

// matches reports whether a name is in a list. If careful, a star does not match names with one of secretWords.
func matches(list []string, name string, careful bool) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		prefix, star := strings.CutSuffix(p, "*")
		if !star {
			return name == p
		}
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && !(careful && slices.ContainsFunc(secretWords, func(w string) bool {
			return strings.Contains(strings.ToUpper(rest), w)
		}))
	})
}
