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

// The keys of model_analyzer's file that are options here, by their path. Several values of a list are joined by
// commas, except for options that are repeated.
var (
	fileKeys = map[string]string{
		"model_repository": "model-repository", "latency_budget": "latency-budget", "min_throughput": "min-throughput",
		"concurrency": "concurrency", "request_rate": "request-rate", "batch_sizes": "b", "export_path": "export-path",
		"output_model_repository_path": "output-model-repository", "num_configs_per_model": "top",
		"bls_composing_models": "bls-composing-models", "run_config_search_mode": "search",
	}
	// modelKeys are those of one model.
	modelKeys = map[string]string{
		"parameters.concurrency": "concurrency", "parameters.request_rate": "request-rate",
		"parameters.batch_sizes":                                                "b",
		"model_config_parameters.max_batch_size":                                "max-batch-sizes",
		"model_config_parameters.dynamic_batching.max_queue_delay_microseconds": "queue-delays",
		"model_config_parameters.instance_group.count":                          "instance-counts",
		"model_config_parameters.instance_group.kind":                           "instance-kinds",
	}
	// sharedKeys may be at the top or of one model.
	sharedKeys = map[string]string{
		"constraints.perf_latency_p99.max": "latency-budget", "constraints.perf_throughput.min": "min-throughput",
		"constraints.cpu_used_ram.max": "max-memory", "constraints.gpu_used_memory.max": "max-gpu-memory",
		"perf_analyzer_flags.measurement-interval": "window", "perf_analyzer_flags.shape": "shape",
		"perf_analyzer_flags.input-data": "input-data", "perf_analyzer_flags.string-length": "string-length",
		"perf_analyzer_flags.string-data": "string-data", "perf_analyzer_flags.max-trials": "max-trials",
		"perf_analyzer_flags.request-count": "request-count",
	}
	repeated = []string{"shape", "input-data"}
)

// analyzerArgs reads a configuration file of model_analyzer and returns the equivalent options of nereid tune. They are
// for the named model; without a name, for the one in the file. It reports all keys that nereid tune does not take.
// Format: docs/config.md of model_analyzer.
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
	names := []string{model}
	switch {
	case model == "" && (together || len(models) == 1):
		names = slices.Sorted(maps.Keys(models))
	case model == "":
		return nil, nil, fmt.Errorf("profile_models names %d models; choose one with -m, or have "+
			"run_config_profile_models_concurrently_enable", len(models))
	case len(models) > 0 && !slices.Contains(slices.Collect(maps.Keys(models)), model):
		return nil, nil, fmt.Errorf("profile_models has no model %q", model)
	}
	for _, name := range names {
		a.add("m", name)
	}
	a.file(file)
	if len(names) == 1 {
		a.model(models[names[0]])
		return a.args, a.server, errors.Join(a.errs...)
	}
	for _, name := range names {
		if len(models[name]) > 0 { // no option is for one of several models
			a.bad("profile_models.%s: of models that are measured at the same time, say it for all of them", name)
		}
	}
	return a.args, a.server, errors.Join(a.errs...)
}

// analyzer translates a file. A later option overrides an earlier one, unless it is repeated.
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

// file translates the settings of all models.
func (a *analyzer) file(file map[string]any) {
	mode, given := file["run_config_search_mode"]
	if !given || mode == "brute" { // model_analyzer's default, in which it changes only these
		a.add("search", "brute")
		a.add("queue-delays", "0")
		a.add("threads", present)
		a.add("instance-kinds", present)
		a.add("instance-counts", "1:5")
	}
	a.ranges(file)
	for _, key := range slices.Sorted(maps.Keys(file)) {
		a.translate(fileKeys, key, file[key], key)
	}
}

// model translates the settings of one model.
func (a *analyzer) model(about map[string]any) {
	if fields, ok := about["model_config_parameters"].(map[string]any); ok {
		for _, option := range []string{
			"instance-counts", "instance-kinds", "max-batch-sizes", "queue-delays", "threads",
		} {
			a.add(option, present) // without a key
		}
		if _, ok := fields["dynamic_batching"]; ok {
			a.add("queue-delays", "0")
		}
		if groups, ok := fields["instance_group"]; ok {
			fields["instance_group"] = a.groups(groups)
		}
	}
	if about["cpu_only"] == true {
		a.add("instance-kinds", "cpu")
	}
	delete(about, "cpu_only")
	for _, key := range slices.Sorted(maps.Keys(about)) {
		a.translate(modelKeys, key, about[key], key+" of a model")
	}
}

// translate adds the options for a key and what is below it. title is the key's name for people.
func (a *analyzer) translate(keys map[string]string, path string, v any, title string) {
	option, ok := keys[path]
	if !ok {
		option, ok = sharedKeys[path]
	}
	list, several := v.([]any)
	fields, isMap := v.(map[string]any)
	top, name, _ := strings.Cut(path, ".")
	switch {
	case ok && several && slices.Contains(repeated, option):
		for _, one := range list {
			a.add(option, a.values(title, one))
		}
	case ok && option == "instance-kinds":
		a.add(option, strings.ToLower(strings.ReplaceAll(a.values(title, v), "KIND_", "")))
	case ok:
		a.add(option, a.values(title, v))
	case path == "objectives":
		a.objectives(v)
	case top == "triton_server_flags" && name != "":
		a.server = append(a.server, "--"+strings.ReplaceAll(name, "_", "-")+"="+a.values(title, v))
	case isMap && (path == "triton_server_flags" || below(keys, path) != nil):
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			a.translate(keys, path+"."+key, fields[key], path+"."+key)
		}
	case v == nil && below(keys, path) != nil: // an empty group
	case below(keys, top) != nil:
		a.bad("%s: want keys and values of %s", title, strings.Join(below(keys, top), ", "))
	default:
		a.bad("%s: nereid tune does not take this key; remove it", title)
	}
}

// below returns the keys of a group, sorted.
func below(keys map[string]string, group string) (list []string) {
	for _, m := range []map[string]string{keys, sharedKeys} {
		for path := range m {
			if strings.HasPrefix(path, group+".") {
				list = append(list, path)
			}
		}
	}
	slices.Sort(list)
	return list
}

// ranges translates the limits of an automatic search and removes them from the file.
func (a *analyzer) ranges(file map[string]any) {
	for _, r := range []struct {
		name, option string
		low, high    int // model_analyzer's
	}{
		{"concurrency", "concurrency", 1, 1024}, {"instance_count", "instance-counts", 1, 5},
		{"model_batch_size", "max-batch-sizes", 1, 128}, {"request_rate", "request-rate", 16, 8192},
	} {
		given := false
		for key, to := range map[string]*int{
			"run_config_search_min_" + r.name: &r.low, "run_config_search_max_" + r.name: &r.high,
		} {
			v, ok := file[key]
			if !ok {
				continue
			}
			given = true
			delete(file, key)
			n, err := strconv.Atoi(a.values(key, v))
			if err != nil || n < 1 || n > 1<<20 {
				a.bad("%s: %v is no whole number from 1", key, v)
				continue
			}
			*to = n
		}
		switch {
		case !given:
		case r.low > r.high:
			a.bad("run_config_search_min_%s is above run_config_search_max_%s", r.name, r.name)
		case r.name == "instance_count":
			a.add(r.option, fmt.Sprintf("%d:%d", r.low, r.high))
		default:
			list := strings.Join(strings.Fields(fmt.Sprint(doubling(r.low, r.high))), ",")
			a.add(r.option, strings.Trim(list, "[]"))
		}
	}
}

// objectives translates names, or names with weights.
func (a *analyzer) objectives(v any) {
	weights, ok := v.(map[string]any)
	if !ok {
		a.add("objective", a.values("objectives", v))
		return
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		words = append(words, name+"="+a.values("objectives."+name, weights[name]))
	}
	a.add("objective", strings.Join(words, ","))
}

// groups joins a list of one instance group, or of several such lists to try, into one group with lists of values.
func (a *analyzer) groups(v any) map[string]any {
	out := map[string]any{}
	outer, ok := v.([]any)
	if !ok {
		a.bad("instance_group: want a list")
	}
	for _, one := range outer {
		if inner, several := one.([]any); several && len(inner) == 1 {
			one = inner[0]
		} else if several || len(outer) > 1 {
			a.bad("instance_group: nereid tune takes one group in each list")
			return nil
		}
		group, ok := one.(map[string]any)
		if !ok {
			a.bad("instance_group: want keys and values")
		}
		for field, value := range group {
			joined, _ := out[field].([]any) // nil: the first one
			out[field] = append(joined, value)
		}
	}
	return out
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
