package onnxruntime

import (
	"slices"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// providers adds the execution providers that a configuration asks for at a place. The CPU's own is always there.
func (o *sessionOptions) providers(s backend.Spec, p place) error {
	accelerators := s.Config.GetOptimization().GetExecutionAccelerators()
	if p.gpu {
		return o.gpuProviders(s.Config, accelerators.GetGpuExecutionAccelerator(), p.device)
	}
	for _, a := range accelerators.GetCpuExecutionAccelerator() {
		if a.GetName() != "openvino" {
			return status.Errorf(status.InvalidArg, "unknown Execution Accelerator '%s' is requested", a.GetName())
		}
		if err := o.AppendExecutionProviderOpenVINO(a.GetParameters()); err != nil {
			return status.Errorf(status.Unsupported, "execution accelerator \"openvino\": %w", err)
		}
	}
	return nil
}

func (o *sessionOptions) gpuProviders(c *inferencepb.ModelConfig, accelerators []*inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator, device int) error {
	cuda := map[string]string{}
	for _, name := range []string{"cudnn_conv_algo_search", "gpu_mem_limit", "arena_extend_strategy", "do_copy_in_default_stream"} {
		if v := c.GetParameters()[name].GetStringValue(); v != "" {
			value, err := cudaValue(name, v)
			if err != nil {
				return err
			}
			cuda[name] = value
		}
	}
	for _, a := range accelerators {
		switch a.GetName() {
		case "cuda":
			for k, v := range a.GetParameters() {
				cuda[k] = v
			}
		case "tensorrt":
			if err := o.tensorRT(a.GetParameters(), device); err != nil {
				return err
			}
		default:
			return status.Errorf(status.InvalidArg, "unknown Execution Accelerator '%s' is requested", a.GetName())
		}
	}
	cuda["device_id"] = strconv.Itoa(device)
	options, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return noProvider("CUDA", err)
	}
	defer func() { _ = options.Destroy() }()
	if err := options.Update(cuda); err != nil {
		return status.Errorf(status.InvalidArg, "options of the CUDA execution provider: %w", err)
	}
	if err := o.AppendExecutionProviderCUDA(options); err != nil {
		return noProvider("CUDA", err)
	}
	return nil
}

// cudaValue turns Triton's numbers into the provider's words.
func cudaValue(name, value string) (string, error) {
	words := map[string][]string{
		"cudnn_conv_algo_search": {"EXHAUSTIVE", "HEURISTIC", "DEFAULT"},
		"arena_extend_strategy":  {"kNextPowerOfTwo", "kSameAsRequested"},
	}[name]
	if words == nil {
		return value, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n >= len(words) {
		return "", status.Errorf(status.InvalidArg, "unsupported %s value '%s' is requested", name, value)
	}
	return words[n], nil
}

// tensorRTKeys are the parameters that the provider knows by the same name; tensorRTNames are the others'.
var tensorRTKeys = []string{
	"trt_auxiliary_streams", "trt_build_heuristics_enable", "trt_builder_optimization_level",
	"trt_context_memory_sharing_enable", "trt_cuda_graph_enable", "trt_detailed_build_log", "trt_dla_core",
	"trt_dla_enable", "trt_dump_ep_context_model", "trt_dump_subgraphs", "trt_engine_cache_enable",
	"trt_engine_cache_path", "trt_engine_cache_prefix", "trt_ep_context_embed_mode", "trt_ep_context_file_path",
	"trt_extra_plugin_lib_paths", "trt_force_sequential_engine_build", "trt_force_timing_cache",
	"trt_int8_calibration_table_name", "trt_int8_use_native_calibration_table", "trt_layer_norm_fp32_fallback",
	"trt_max_partition_iterations", "trt_min_subgraph_size", "trt_profile_max_shapes", "trt_profile_min_shapes",
	"trt_profile_opt_shapes", "trt_sparsity_enable", "trt_tactic_sources", "trt_timing_cache_enable",
	"trt_timing_cache_path",
}

var tensorRTNames = map[string]string{
	"max_workspace_size_bytes":          "trt_max_workspace_size",
	"int8_calibration_table_name":       "trt_int8_calibration_table_name",
	"int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}

func (o *sessionOptions) tensorRT(parameters map[string]string, device int) error {
	keys := map[string]string{"device_id": strconv.Itoa(device)}
	for name, value := range parameters {
		if name == "precision_mode" {
			switch value {
			case "FP32":
			case "FP16":
				keys["trt_fp16_enable"] = "1"
			case "BF16":
				keys["trt_bf16_enable"] = "1"
			case "INT8":
				keys["trt_int8_enable"] = "1"
			default:
				return status.Errorf(status.InvalidArg, "unsupported precision mode '%s' is requested", value)
			}
			continue
		}
		key := tensorRTNames[name]
		if slices.Contains(tensorRTKeys, name) {
			key = name
		}
		if key == "" {
			return status.Errorf(status.InvalidArg, "unknown parameter '%s' is provided for TensorRT Execution Accelerator", name)
		}
		keys[key] = value
	}
	options, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return noProvider("TensorRT", err)
	}
	defer func() { _ = options.Destroy() }()
	if err := options.Update(keys); err != nil {
		return status.Errorf(status.InvalidArg, "options of the TensorRT execution provider: %w", err)
	}
	if err := o.AppendExecutionProviderTensorRT(options); err != nil {
		return noProvider("TensorRT", err)
	}
	return nil
}

func noProvider(name string, err error) error {
	return status.Errorf(status.Unsupported, "this onnxruntime has no %s execution provider: %w; use KIND_CPU, or --onnxruntime-library with a build that has it", name, err)
}
