package modelconfig

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Suggest returns the candidate that was most likely meant, "" if none is near. Case, underscores and hyphens do not
// count.
func Suggest(got string, candidates []string) string { return suggest(got, candidates) }

// suggest returns the candidate that was most likely meant, "" if none is near. Case, underscores and
// hyphens do not count.
func suggest(got string, candidates []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	if len(got) > 100 {
		return ""
	}
	best, bestDist := "", 1000
	for _, c := range candidates {
		a, b := plain(got), plain(c)
		d := editDistance(a, b)
		if d <= max(len(b)/3, 1) && d < bestDist && d < len(b) {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between a and b.
func editDistance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

// fieldNames lists the fields of a message in the order of their declaration.
func fieldNames(d protoreflect.MessageDescriptor) []string {
	fields := d.Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}

func enumNames(d protoreflect.EnumDescriptor) []string {
	values := d.Values()
	names := make([]string, values.Len())
	for i := range names {
		names[i] = string(values.Get(i).Name())
	}
	return names
}

// suggestField returns the field of the message that was most likely meant, "" if none.
func suggestField(got string, d protoreflect.MessageDescriptor) string {
	names := fieldNames(d)
	if s, ok := otherFieldNames[strings.ToLower(got)]; ok && slices.Contains(names, s) {
		return s
	}
	return suggest(got, names)
}

// otherFieldNames are what other formats call Triton's fields.
var otherFieldNames = map[string]string{
	"shape": "dims", "dimensions": "dims", "dtype": "data_type", "type": "data_type", "datatype": "data_type",
	"labels": "label_filename", "label_file": "label_filename", "batch_size": "max_batch_size", "framework": "backend",
	"model_name": "name", "instances": "count", "device": "kind", "devices": "gpus", "filename": "default_model_filename",
	"max_delay": "max_queue_delay_microseconds", "warmup": "model_warmup", "ensemble": "ensemble_scheduling",
}

// otherTypeNames are what other tools call Triton's data types.
var otherTypeNames = map[string]string{
	"FLOAT": "TYPE_FP32", "FLOAT32": "TYPE_FP32", "SINGLE": "TYPE_FP32", "DOUBLE": "TYPE_FP64", "FLOAT64": "TYPE_FP64",
	"HALF": "TYPE_FP16", "FLOAT16": "TYPE_FP16", "BFLOAT16": "TYPE_BF16", "INT": "TYPE_INT32", "LONG": "TYPE_INT64",
	"BYTES": "TYPE_STRING", "STR": "TYPE_STRING", "BOOLEAN": "TYPE_BOOL", "BYTE": "TYPE_UINT8", "UINT": "TYPE_UINT32",
}

// suggestEnum returns the enum value that was most likely meant by name, "" if none.
func suggestEnum(got string, d protoreflect.EnumDescriptor) string {
	upper := strings.ToUpper(got)
	names := enumNames(d)
	if d.Name() == "DataType" {
		if t, ok := otherTypeNames[strings.TrimPrefix(upper, "TYPE_")]; ok {
			return t
		}
	}
	for _, n := range names {
		if strings.HasSuffix(n, "_"+upper) { // GPU for KIND_GPU, FP32 for TYPE_FP32
			return n
		}
	}
	return suggest(got, names)
}

// whereField names the messages under root that have a field called name, as config paths, at most four.
func whereField(name string, root protoreflect.MessageDescriptor) []string {
	var found []string
	var walk func(d protoreflect.MessageDescriptor, path string)
	walk = func(d protoreflect.MessageDescriptor, path string) {
		fields := d.Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if path != "" && string(f.Name()) == name && len(found) < 4 {
				found = append(found, path)
			}
			if f.Message() != nil && !f.IsMap() {
				walk(f.Message(), joinPath(path, string(f.Name())))
			}
		}
	}
	walk(root, "")
	return found
}
