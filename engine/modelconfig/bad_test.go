package modelconfig_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"nereid/engine/modelconfig"
	"nereid/engine/tensor"
)

// badFile is one file of testdata/bad. Its first comment lines are the conditions of the check and the expected faults:
//
//	# folder: model        the model's folder, "model" unless said; "-" checks no folder
//	# signature: x FP32 -1,3 -> y FP32 -1,10
//	# gpus: 0 1            # backends: onnxruntime python            # files: labels.txt
//	# want: 3:7: words     a fault at line 3, column 7 (or "-": without a place) that begins with the words
type badFile struct {
	text     string
	folder   string
	sig      *modelconfig.Signature
	gpus     []int32
	backends []string
	files    fstest.MapFS
	want     []string
}

func readBad(t *testing.T, path string) badFile {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := badFile{text: string(b), folder: "model"}
	for line := range strings.Lines(f.text) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !strings.HasPrefix(line, "# ") || !ok {
			break
		}
		switch key {
		case "folder":
			f.folder = strings.TrimPrefix(value, "-")
		case "want":
			f.want = append(f.want, value)
		case "signature":
			f.sig = readSignature(t, value)
		case "backends":
			f.backends = strings.Fields(value)
		case "gpus":
			for _, id := range strings.Fields(value) {
				n, err := strconv.ParseInt(id, 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				f.gpus = append(f.gpus, int32(n))
			}
		case "files":
			f.files = make(fstest.MapFS)
			for _, name := range strings.Fields(value) {
				f.files[name] = &fstest.MapFile{}
			}
		default:
			t.Fatalf("%s: unknown heading %q", path, key)
		}
	}
	return f
}

func readSignature(t *testing.T, text string) *modelconfig.Signature {
	t.Helper()
	in, out, ok := strings.Cut(text, " -> ")
	if !ok {
		t.Fatalf("bad signature %q", text)
	}
	read := func(s string) modelconfig.IO {
		parts := strings.Fields(s)
		io := modelconfig.IO{Name: parts[0], DataType: tensor.ParseDataType(parts[1])}
		for _, d := range strings.Split(parts[2], ",") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			io.Dims = append(io.Dims, n)
		}
		return io
	}
	return sig(read(in), read(out))
}

// faults parses, completes and validates a file.
func (f badFile) faults() modelconfig.Faults {
	cfg, pos, faults := modelconfig.Parse("f", []byte(f.text))
	if faults.Err() != nil {
		return faults
	}
	more := modelconfig.CompleteBackend(cfg, cmp.Or(f.folder, "model"), nil)
	if f.sig != nil && more.Err() == nil {
		more = append(more,
			modelconfig.Complete(cfg, f.sig, modelconfig.CompleteOptions{DefaultMaxBatchSize: 4, Positions: pos})...)
	}
	if faults = append(faults, more...); more.Err() != nil {
		return faults
	}
	o := modelconfig.ValidateOptions{Positions: pos, Folder: f.folder, Signature: f.sig, Backends: f.backends,
		GPUs: f.gpus}
	if f.files != nil {
		o.Files = f.files
	}
	return append(faults, modelconfig.Validate(cfg, o)...)
}

// subjects are the features that validate a configuration, with the names of the bad files that each must refuse.
var subjects = []struct{ id, files string }{
	{"A040", "batch_input|batch_output|metric"}, {"A038", "ensemble"}, {"A039", "control|corrid|initial_state"},
	{"A037", "group|gpu|instance|count|limiter"},
	{"A036", "input|output|dim|tensor|data_type|numpy|format|reshape|label"},
	{"A035", "batch_size|name|preferred|priorit|ordering|backend"},
}

// subject returns the feature whose check refuses a bad file, or "".
func subject(name string) string {
	for _, s := range subjects {
		if regexp.MustCompile(s.files).MatchString(name) {
			return s.id + " "
		}
	}
	return ""
}

func TestBadFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.pbtxt")
	if err != nil || len(paths) < 60 {
		t.Fatalf("testdata/bad has %d files, %v; want at least 60", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".pbtxt")
		t.Run(subject(name)+name, func(t *testing.T) {
			f := readBad(t, path)
			if len(f.want) == 0 {
				t.Fatal("the file says nothing about what it must produce")
			}
			var got []string
			for _, fault := range f.faults() {
				text := strings.TrimPrefix(fault.Error(), "f:")
				if fault.Line == 0 {
					text = "- " + text
				}
				got = append(got, text)
			}
			left := slices.Clone(got)
			for _, want := range f.want {
				i := slices.IndexFunc(left, func(s string) bool { return strings.HasPrefix(s, want) })
				if i < 0 {
					t.Errorf("no fault begins with %q", want)
					continue
				}
				left = slices.Delete(left, i, i+1)
			}
			if len(left) > 0 {
				t.Errorf("faults that the file does not want: %q", left)
			}
			if t.Failed() {
				t.Logf("all faults:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}
