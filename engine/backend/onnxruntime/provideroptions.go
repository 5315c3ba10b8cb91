package onnxruntime

import (
	"slices"
	"strconv"

	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// gpuOptions returns the options of the CUDA provider, which every instance on a GPU has, and of the TensorRT provider,
// nil if the configuration does not request it.
func gpuOptions(c *inferencepb.ModelConfig, device int) (cuda, tensorRT map[string]string, err error) {
	cuda = map[string]string{}
	for _, name := range cudaParameters {
		v := c.GetParameters()[name].GetStringValue()
		if v == "" {
			continue
		}
		if cuda[name], err = cudaValue(name, v); err != nil {
			return nil, nil, err
		}
	}
	for _, a := range c.GetOptimization().GetExecutionAccelerators().GetGpuExecutionAccelerator() {
		switch a.GetName() {
		case "cuda":
			for k, v := range a.GetParameters() {
				if k == "do_copy_in_default_stream" || k == "use_ep_level_unified_stream" {
					if _, err := parseBool(v); err != nil {
						return nil, nil, status.Errorf(status.InvalidArg,
							"execution accelerator \"cuda\", parameter %s: %w", k, err)
					}
				}
				if v != "" {
					cuda[k] = v
				}
			}
		case "tensorrt":
			if tensorRT, err = tensorRTOptions(a.GetParameters(), device); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, status.Errorf(status.InvalidArg,
				"unknown Execution Accelerator '%s' is requested; gpu_execution_accelerator knows tensorrt and cuda",
				a.GetName())
		}
	}
	cuda["device_id"] = strconv.Itoa(device)
	return cuda, tensorRT, nil
}

// cudaParameters are Triton's model parameters for CUDA. They are older than the accelerator "cuda".
var cudaParameters = []string{"cudnn_conv_algo_search", "gpu_mem_limit", "arena_extend_strategy",
	"do_copy_in_default_stream"}

// cudaValue translates Triton's number for a parameter to the provider's name for it.
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

// The parameters that have the same name in the accelerator and in the TensorRT provider, by the type of their value.
var (
	tensorRTBools = []string{
		"trt_build_heuristics_enable", "trt_context_memory_sharing_enable", "trt_cuda_graph_enable",
		"trt_detailed_build_log", "trt_dla_enable", "trt_dump_ep_context_model", "trt_dump_subgraphs",
		"trt_engine_cache_enable", "trt_force_sequential_engine_build", "trt_force_timing_cache",
		"trt_layer_norm_fp32_fallback", "trt_sparsity_enable", "trt_timing_cache_enable",
	}
	tensorRTNumbers = []string{
		"trt_auxiliary_streams", "trt_builder_optimization_level", "trt_dla_core", "trt_ep_context_embed_mode",
		"trt_max_partition_iterations", "trt_min_subgraph_size",
	}
	tensorRTTexts = []string{
		"trt_engine_cache_path", "trt_engine_cache_prefix", "trt_ep_context_file_path", "trt_extra_plugin_lib_paths",
		"trt_profile_max_shapes", "trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_tactic_sources",
		"trt_timing_cache_path",
	}
)

// tensorRTOptions translates the parameters of the accelerator "tensorrt" to the provider's options.
func tensorRTOptions(parameters map[string]string, device int) (map[string]string, error) {
	keys := map[string]string{}
	for name, value := range parameters {
		key, value, err := tensorRTOption(name, value)
		if err != nil {
			return nil, err
		}
		if key != "" && value != "" {
			keys[key] = value
		}
	}
	keys["device_id"] = strconv.Itoa(device)
	return keys, nil
}

func tensorRTOption(name, value string) (key, v string, err error) {
	switch name {
	case "precision_mode":
		switch value {
		case "FP32":
			return "", "", nil
		case "FP16":
			return "trt_fp16_enable", "1", nil
		case "BF16":
			return "trt_bf16_enable", "1", nil
		case "INT8":
			return "trt_int8_enable", "1", nil
		}
		return "", "", status.Errorf(status.InvalidArg, "unsupported precision mode '%s' is requested", value)
	case "max_workspace_size_bytes":
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return "", "", badTensorRT(name, value, "a number of bytes")
		}
		return "trt_max_workspace_size", value, nil
	case "int8_calibration_table_name":
		return "trt_int8_calibration_table_name", value, nil
	case "int8_use_native_calibration_table":
		if _, err := parseBool(value); err != nil {
			return "", "", badTensorRT(name, value, "true or false")
		}
		return "trt_int8_use_native_calibration_table", value, nil
	}
	switch {
	case slices.Contains(tensorRTBools, name):
		if _, err := parseBool(value); err != nil {
			return "", "", badTensorRT(name, value, "true or false")
		}
	case slices.Contains(tensorRTNumbers, name):
		if _, err := strconv.Atoi(value); err != nil {
			return "", "", badTensorRT(name, value, "a number")
		}
	case !slices.Contains(tensorRTTexts, name):
		return "", "", status.Errorf(status.InvalidArg,
			"unknown parameter '%s' is provided for TensorRT Execution Accelerator", name)
	}
	return name, value, nil
}

func badTensorRT(name, value, want string) error {
	return status.Errorf(status.InvalidArg, "parameter '%s' of the TensorRT Execution Accelerator is %q, want %s", name,
		value, want)
}
