package onnxruntime

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/system/glob"
)

type accelerator = inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator

// The library's names of the execution providers that models can request.
const (
	cudaProvider     = "CUDAExecutionProvider"
	tensorRTProvider = "TensorrtExecutionProvider"
	openVINOProvider = "OpenVINOExecutionProvider"
)

// providers adds the execution providers that a configuration requests for a place. The CPU provider is always there.
func (o *sessionOptions) providers(l *capi.Library, s backend.Spec, p place, runtime string) error {
	accelerators := s.Config.GetOptimization().GetExecutionAccelerators()
	if !p.gpu {
		return o.cpuProviders(l, accelerators.GetCpuExecutionAccelerator(), runtime)
	}
	cuda, rt, err := gpuOptions(s.Config, p.device)
	if err != nil {
		return err
	}
	withoutGraphs(s, cuda)
	withoutGraphs(s, rt)
	preload(l, s)
	if rt != nil {
		if err := o.tensorRT(l, rt, runtime); err != nil {
			return err
		}
	}
	return o.cuda(l, cuda, p.device, runtime)
}

// withoutGraphs removes CUDA graphs from a provider's options and logs a warning. ONNX Runtime captures the graph in
// the first run and replays it for later runs with the memory of the first request. The provider refuses invalid
// values.
func withoutGraphs(s backend.Spec, options map[string]string) {
	for _, name := range []string{"enable_cuda_graph", "trt_cuda_graph_enable"} {
		if on, err := parseBool(options[name]); err == nil && on {
			delete(options, name)
			s.Log.Warn("CUDA graphs are not used: a graph has the tensors of the request that it was captured with; "+
				"take the parameter out", "model", s.ModelName, "parameter", name)
		}
	}
}

// cpuProviders adds OpenVINO, the only CPU accelerator of Triton's configuration.
func (o *sessionOptions) cpuProviders(l *capi.Library, accelerators []*accelerator, runtime string) error {
	for _, a := range accelerators {
		if a.GetName() != "openvino" {
			return status.Errorf(status.InvalidArg,
				"unknown Execution Accelerator '%s' is requested; cpu_execution_accelerator knows openvino alone, "+
					"so take the others out: ONNX Runtime's own kernels run the model", a.GetName())
		}
		if err := need(l, openVINOProvider, "OpenVINO", runtime); err != nil {
			return err
		}
		if err := o.AppendExecutionProviderOpenVINO(a.GetParameters()); err != nil {
			return status.Errorf(status.InvalidArg,
				"execution accelerator \"openvino\": %w; its parameters must be ones that ONNX Runtime's OpenVINO "+
					"provider knows, such as device_type: \"CPU\"", err)
		}
	}
	return nil
}

func (o *sessionOptions) cuda(l *capi.Library, values map[string]string, device int, runtime string) error {
	if err := need(l, cudaProvider, "CUDA", runtime); err != nil {
		return err
	}
	options, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return unusable(l, "CUDA", device, runtime, err)
	}
	defer func() { _ = options.Destroy() }()
	if err := options.Update(values); err != nil {
		return refused(l, "CUDA", device, runtime, err)
	}
	if err := o.AppendExecutionProviderCUDA(options); err != nil {
		return unusable(l, "CUDA", device, runtime, err)
	}
	return nil
}

func (o *sessionOptions) tensorRT(l *capi.Library, values map[string]string, runtime string) error {
	if err := need(l, tensorRTProvider, "TensorRT", runtime); err != nil {
		return err
	}
	options, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return unusable(l, "TensorRT", 0, runtime, err)
	}
	defer func() { _ = options.Destroy() }()
	if err := options.Update(values); err != nil {
		return refused(l, "TensorRT", 0, runtime, err)
	}
	if err := o.AppendExecutionProviderTensorRT(options); err != nil {
		return unusable(l, "TensorRT", 0, runtime, err)
	}
	return nil
}

// install returns how to install a provider into the runtime folder, or into any folder if that is "".
func install(l *capi.Library, name, runtime string) string {
	option := ""
	if runtime == "" {
		runtime = "<folder>"
		option = " and start with --onnxruntime-library=<folder>"
	} else {
		option = " and restart"
	}
	pip := func(packages string) string {
		return fmt.Sprintf("run pip install --target=%s %s%s", runtime, packages, option)
	}
	version := embeddedVersionOr(l.Version)
	switch name {
	case "OpenVINO":
		return pip("onnxruntime-openvino") +
			", serve the model with backend \"openvino\", or take cpu_execution_accelerator out"
	case "TensorRT":
		return pip("\"onnxruntime-gpu[cuda,cudnn]=="+version+"\" \"tensorrt-cu13-libs<11\"") +
			", or take gpu_execution_accelerator \"tensorrt\" out"
	}
	return pip("\"onnxruntime-gpu[cuda,cudnn]=="+version+"\"") + ", or set instance_group { kind: KIND_CPU }"
}

// need returns an error if the library was built without a provider.
func need(l *capi.Library, provider, name, runtime string) error {
	if slices.Contains(l.Providers, provider) {
		return nil
	}
	return status.Errorf(status.Unsupported, "onnxruntime %s at %s has no %s execution provider (it has %s); %s",
		l.Version, l.Path, name, strings.Join(l.Providers, ", "), install(l, name, runtime))
}

// refused returns the error for options that were not accepted. ONNX Runtime opens the provider's library to read them;
// that may be what failed.
func refused(l *capi.Library, name string, device int, runtime string, err error) error {
	if strings.Contains(err.Error(), "Failed to load") {
		return unusable(l, name, device, runtime, err)
	}
	return status.Errorf(status.InvalidArg, "options of the %s execution provider: %w", name, err)
}

// unusable returns the error for a provider that does not start.
func unusable(l *capi.Library, name string, device int, runtime string, err error) error {
	what := name + " execution provider"
	if name == "CUDA" {
		what += fmt.Sprintf(" for GPU %d", device)
	}
	return status.Errorf(status.Unavailable,
		"the %s of onnxruntime %s at %s does not start: %w; it needs NVIDIA's driver, and the libraries that these "+
			"bring: %s",
		what, l.Version, l.Path, err, install(l, name, runtime))
}

// preloaded are the libraries that GPU providers need and that Python packages install outside the loader's search
// path. Later ones depend on earlier ones.
var preloaded = []string{
	"libcudart.so.*", "libnvJitLink.so.*", "libnvrtc.so.*", "libcublasLt.so.*", "libcublas.so.*", "libcufft.so.*",
	"libcurand.so.*", "libcudnn*.so.*", "libnvinfer*.so.*", "libnvonnxparser.so.*",
}

// preload opens the libraries of NVIDIA's Python packages beside the library's own package, so that the providers find
// them. If one does not open, the provider that needs it fails later.
func preload(l *capi.Library, s backend.Spec) {
	packages := filepath.Join(filepath.Dir(l.Path), "..", "..") // above onnxruntime/capi
	var paths []string
	for _, name := range preloaded {
		for _, folder := range []string{"nvidia/*/lib/", "tensorrt_libs/"} {
			paths = append(paths, glob.In(packages, folder+name)...)
		}
	}
	for path, err := range l.Preload(paths) {
		s.Log.Debug("a library for GPUs cannot be opened", "path", path, "err", err)
	}
}
