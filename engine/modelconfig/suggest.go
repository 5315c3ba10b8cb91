package modelconfig

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// separators are the characters that Suggest ignores.
var separators = strings.NewReplacer("_", "", "-", "")

// Suggest returns the candidate that was most likely meant, "" if none is similar. Case, underscores and hyphens do not
// count.
func Suggest(got string, candidates []string) string {
	if len(got) > 100 {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(separators.Replace(s)) }
	best, bestDistance := "", 1000
	for _, c := range candidates {
		b := plain(c)
		if d := editDistance(plain(got), b); d <= max(len(b)/3, 1) && d < bestDistance && d < len(b) {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of adjacent bytes between a and b.
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

// descriptorNames lists the names of fields or enum values in the order of their declaration.
func descriptorNames[D protoreflect.Descriptor](list interface {
	Len() int
	Get(i int) D
}) []string {
	names := make([]string, list.Len())
	for i := range names {
		names[i] = string(list.Get(i).Name())
	}
	return names
}

// suggestField returns the field of the message that was most likely meant, "" if none.
func suggestField(got string, d protoreflect.MessageDescriptor) string {
	names := descriptorNames(d.Fields())
	if s, ok := otherFieldNames[strings.ToLower(got)]; ok && slices.Contains(names, s) {
		return s
	}
	return Suggest(got, names)
}

// otherFieldNames are names of other formats for Triton's fields.
var otherFieldNames = map[string]string{
	"shape": "dims", "dimensions": "dims", "dtype": "data_type", "type": "data_type", "datatype": "data_type",
	"labels": "label_filename", "label_file": "label_filename", "batch_size": "max_batch_size", "framework": "backend",
	"model_name": "name", "instances": "count", "device": "kind", "devices": "gpus",
	"filename":  "default_model_filename",
	"max_delay": "max_queue_delay_microseconds", "warmup": "model_warmup", "ensemble": "ensemble_scheduling",
}

// otherTypeNames are names of other tools for Triton's data types.
var otherTypeNames = map[string]string{
	"FLOAT": "TYPE_FP32", "FLOAT32": "TYPE_FP32", "SINGLE": "TYPE_FP32", "DOUBLE": "TYPE_FP64", "FLOAT64": "TYPE_FP64",
	"HALF": "TYPE_FP16", "FLOAT16": "TYPE_FP16", "BFLOAT16": "TYPE_BF16", "INT": "TYPE_INT32", "LONG": "TYPE_INT64",
	"BYTES": "TYPE_STRING", "STR": "TYPE_STRING", "BOOLEAN": "TYPE_BOOL", "BYTE": "TYPE_UINT8", "UINT": "TYPE_UINT32",
}

// suggestEnum returns the enum value that was most likely meant by name, "" if none.
func suggestEnum(got string, d protoreflect.EnumDescriptor) string {
	upper := strings.ToUpper(got)
	names := descriptorNames(d.Values())
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
	return Suggest(got, names)
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
