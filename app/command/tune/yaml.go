package tunecmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// present is the word for keeping the present value.
const present = "present"

// analyzerArgs reads a configuration file of model_analyzer and returns the equivalent options of nereid tune, for the
// named model or, without a name, for the one in the file. It reports all keys that nereid tune does not take. Format:
// docs/config.md of model_analyzer.
func analyzerArgs(text []byte, model string) (args, server []string, err error) {
	var file map[string]any
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, nil, err
	}
	a := &analyzer{}
	models := a.models(file["profile_models"])
	together := file["run_config_profile_models_concurrently_enable"] == true
	delete(file, "profile_models")
	delete(file, "run_config_profile_models_concurrently_enable")
	switch {
	case together && model == "":
		return a.together(models, file)
	case model == "" && len(models) == 1:
		for name := range models {
			model = name
		}
	case model == "":
		return nil, nil, fmt.Errorf("profile_models names %d models; choose one with -m, or have "+
			"run_config_profile_models_concurrently_enable", len(models))
	}
	about, named := models[model]
	if len(models) > 0 && !named {
		return nil, nil, fmt.Errorf("profile_models has no model %q", model)
	}
	a.add("m", model)
	a.whole(file)
	a.own(about)
	return a.args, a.server, errors.Join(a.errs...)
}

// together translates a file of models that are measured at the same time. Settings of a single model have no option.
func (a *analyzer) together(models map[string]map[string]any, file map[string]any) (args, server []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(models)) {
		a.add("m", name)
		if len(models[name]) > 0 {
			a.bad("profile_models.%s: of models that are measured at the same time, say it for all of them", name)
		}
	}
	a.whole(file)
	return a.args, a.server, errors.Join(a.errs...)
}

// analyzer translates a file.
type analyzer struct {
	args, server []string
	errs         []error
}

func (a *analyzer) add(option, value string) { a.args = append(a.args, "--"+option+"="+value) }

func (a *analyzer) bad(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

// models reads profile_models: names with commas, a list, or a map with the settings of each model.
func (a *analyzer) models(v any) map[string]map[string]any {
	out := map[string]map[string]any{}
	switch v := v.(type) {
	case nil:
	case string:
		for name := range strings.SplitSeq(v, ",") {
			out[strings.TrimSpace(name)] = nil
		}
	case []any:
		for _, one := range v {
			maps.Copy(out, a.models(one))
		}
	case map[string]any:
		for name, said := range v {
			about, ok := said.(map[string]any)
			if !ok && said != nil {
				a.bad("profile_models.%s: want keys and values", name)
			}
			out[name] = about
		}
	default:
		a.bad("profile_models: want names, a list or keys with values")
	}
	return out
}

// whole translates the settings of all models.
func (a *analyzer) whole(file map[string]any) {
	mode := "brute" // model_analyzer's default
	limits := map[string][2]string{}
	plain := map[string]string{"model_repository": "model-repository", "latency_budget": "latency-budget",
		"min_throughput": "min-throughput",
		"concurrency":    "concurrency", "request_rate": "request-rate", "batch_sizes": "b",
		"export_path":                  "export-path",
		"output_model_repository_path": "output-model-repository", "num_configs_per_model": "top",
		"bls_composing_models": "bls-composing-models"}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		v := file[key]
		bound, isLow := strings.CutPrefix(key, "run_config_search_min_")
		if !isLow {
			bound, _ = strings.CutPrefix(key, "run_config_search_max_")
		}
		switch option, ok := plain[key]; {
		case ok:
			a.add(option, a.values(key, v))
		case slices.Contains([]string{"concurrency", "request_rate", "model_batch_size", "instance_count"}, bound):
			l := limits[bound]
			if isLow {
				l[0] = a.values(key, v)
			} else {
				l[1] = a.values(key, v)
			}
			limits[bound] = l
		case key == "run_config_search_mode":
			mode = a.values(key, v)
		case key == "constraints" || key == "objectives" || key == "perf_analyzer_flags" ||
			key == "triton_server_flags":
			a.shared(key, v)
		default:
			a.bad("%s: nereid tune does not take this key; remove it", key)
		}
	}
	a.add("search", mode)
	if mode == "brute" { // in model_analyzer it changes only these
		a.add("queue-delays", "0")
		a.add("threads", present)
		a.add("instance-counts", "1:5")
	}
	a.ranges(limits)
}

// ranges translates the limits of an automatic search.
func (a *analyzer) ranges(limits map[string][2]string) {
	for _, bound := range slices.Sorted(maps.Keys(limits)) {
		usual := map[string][2]int{"concurrency": {1, 1024}, "request_rate": {16, 8192}, "model_batch_size": {1, 128},
			"instance_count": {1, 5}}[bound]
		for i, text := range limits[bound] {
			if text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1<<20 {
				a.bad("run_config_search_min_%s and _max_%s: %q is no whole number from 1", bound, bound, text)
				return
			}
			usual[i] = n
		}
		if usual[0] > usual[1] {
			a.bad("run_config_search_min_%s is above run_config_search_max_%s", bound, bound)
			return
		}
		list := doubling(usual[0], usual[1])
		if bound == "instance_count" {
			list = upTo(usual[1])[usual[0]-1:]
		}
		option := map[string]string{"concurrency": "concurrency", "request_rate": "request-rate",
			"model_batch_size": "max-batch-sizes", "instance_count": "instance-counts"}[bound]
		words := make([]string, len(list))
		for i, n := range list {
			words[i] = strconv.Itoa(n)
		}
		a.add(option, strings.Join(words, ","))
	}
}

// shared translates keys that may be at the top or in a model's settings.
func (a *analyzer) shared(key string, v any) {
	switch key {
	case "constraints":
		a.constraints(v)
	case "objectives":
		a.objectives(v)
	case "perf_analyzer_flags":
		flags := map[string]string{"measurement-interval": "window", "shape": "shape", "input-data": "input-data",
			"string-length": "string-length", "string-data": "string-data",
			"max-trials": "max-trials", "request-count": "request-count"}
		a.each(key, v, func(name string, v any) {
			option, ok := flags[name]
			list, several := v.([]any)
			switch {
			case !ok:
				a.bad("perf_analyzer_flags.%s: nereid tune does not take this flag; remove it", name)
			case several:
				for _, one := range list {
					a.add(option, a.values(name, one))
				}
			default:
				a.add(option, a.values(name, v))
			}
		})
	case "triton_server_flags":
		a.each(key, v, func(name string, v any) {
			a.server = append(a.server, "--"+strings.ReplaceAll(name, "_", "-")+"="+a.values(name, v))
		})
	}
}

// constraints translates limits of metrics.
func (a *analyzer) constraints(v any) {
	a.each("constraints", v, func(metric string, v any) {
		a.each("constraints."+metric, v, func(bound string, v any) {
			option := map[string]string{"perf_latency_p99.max": "latency-budget",
				"perf_throughput.min": "min-throughput", "cpu_used_ram.max": "max-memory",
				"gpu_used_memory.max": "max-gpu-memory"}[metric+"."+bound]
			if option == "" {
				a.bad("constraints.%s.%s: want perf_latency_p99.max, perf_throughput.min, cpu_used_ram.max or "+
					"gpu_used_memory.max", metric, bound)
				return
			}
			a.add(option, a.values(metric, v))
		})
	})
}

// objectives translates names, or names with weights.
func (a *analyzer) objectives(v any) {
	if weights, ok := v.(map[string]any); ok {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(weights)) {
			words = append(words, name+"="+a.values("objectives."+name, weights[name]))
		}
		a.add("objective", strings.Join(words, ","))
		return
	}
	a.add("objective", a.values("objectives", v))
}

// own translates the settings of one model.
func (a *analyzer) own(about map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(about)) {
		v := about[key]
		switch key {
		case "parameters":
			a.each(key, v, func(name string, v any) {
				option := map[string]string{"concurrency": "concurrency", "request_rate": "request-rate",
					"batch_sizes": "b"}[name]
				if option == "" {
					a.bad("parameters.%s: want concurrency, request_rate or batch_sizes", name)
					return
				}
				a.add(option, a.values(name, v))
			})
		case "model_config_parameters":
			a.configs(v)
		case "constraints", "objectives", "perf_analyzer_flags", "triton_server_flags":
			a.shared(key, v)
		case "cpu_only":
			if v == true {
				a.add("instance-kinds", "cpu")
			}
		default:
			a.bad("%s of a model: nereid tune does not take this key; remove it", key)
		}
	}
}

// configs translates the fields to try. Fields without a key keep the present value.
func (a *analyzer) configs(v any) {
	lists := map[string]string{"max-batch-sizes": present, "queue-delays": present, "instance-counts": present,
		"instance-kinds": present, "threads": present}
	a.each("model_config_parameters", v, func(name string, v any) {
		switch name {
		case "max_batch_size":
			lists["max-batch-sizes"] = a.values(name, v)
		case "dynamic_batching":
			lists["queue-delays"] = "0"
			a.each(name, v, func(field string, v any) {
				if field != "max_queue_delay_microseconds" {
					a.bad("dynamic_batching.%s: nereid tune changes max_queue_delay_microseconds alone", field)
					return
				}
				lists["queue-delays"] = a.values(field, v)
			})
		case "instance_group":
			a.groups(v, lists)
		default:
			a.bad("model_config_parameters.%s: nereid tune changes max_batch_size, dynamic_batching and instance_group",
				name)
		}
	})
	for _, option := range slices.Sorted(maps.Keys(lists)) {
		a.add(option, lists[option])
	}
}

// groups translates a list of one instance group, or a list of such lists to try.
func (a *analyzer) groups(v any, lists map[string]string) {
	outer, ok := v.([]any)
	var counts, kinds []string
	for _, one := range outer {
		if inner, several := one.([]any); several && len(inner) == 1 {
			one = inner[0]
		} else if several || len(outer) > 1 {
			a.bad("instance_group: nereid tune takes one group in each list")
			return
		}
		a.each("instance_group", one, func(field string, v any) {
			switch field {
			case "count":
				counts = append(counts, a.values(field, v))
			case "kind":
				kinds = append(kinds, strings.ToLower(strings.ReplaceAll(a.values(field, v), "KIND_", "")))
			default:
				a.bad("instance_group.%s: nereid tune changes count and kind", field)
			}
		})
	}
	if !ok {
		a.bad("instance_group: want a list")
	}
	if counts != nil {
		lists["instance-counts"] = strings.Join(counts, ",")
	}
	if kinds != nil {
		lists["instance-kinds"] = strings.Join(kinds, ",")
	}
}

// each calls f for the keys of a map, sorted.
func (a *analyzer) each(what string, v any, f func(name string, v any)) {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		a.bad("%s: want keys and values", what)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		f(name, m[name])
	}
}

// values formats a value, a list or a range for an option.
func (a *analyzer) values(what string, v any) string {
	switch v := v.(type) {
	case []any:
		words := make([]string, len(v))
		for i := range v {
			words[i] = a.values(what, v[i])
		}
		return strings.Join(words, ",")
	case map[string]any:
		step, ok := v["step"]
		if !ok {
			step = 1
		}
		if v["start"] == nil || v["stop"] == nil || len(v) > 3 || len(v) == 3 && !ok {
			a.bad("%s: want a value, a list, or start, stop and step", what)
			return ""
		}
		return a.values(what, v["start"]) + ":" + a.values(what, v["stop"]) + ":" + a.values(what, step)
	case string:
		return strings.ReplaceAll(v, " ", "")
	case int, float64, bool:
		return fmt.Sprint(v)
	}
	a.bad("%s: want a value", what)
	return ""
}
