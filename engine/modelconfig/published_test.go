package modelconfig_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

// published is a shortened configuration from a tutorial or a user. Its first line has its source and the expected
// result:
//
//	# source: words
//	# folder: the model's folder; without it, the file's name
//	# files: files in that folder
//	# gpus: 0 1
//	# want: config.pbtxt:3:7: words
//
// want is the beginning of the first fault. Without it, the configuration must be valid.
type published struct {
	text, folder, want string
	files              fstest.MapFS
	gpus               []int32
}

func readPublished(t *testing.T, path string) published {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := published{text: string(b), folder: strings.TrimSuffix(filepath.Base(path), ".pbtxt"), files: fstest.MapFS{}}
	head, _, _ := strings.Cut(p.text, "\n")
	for _, part := range strings.Split(strings.TrimPrefix(head, "# "), " | ") {
		key, value, _ := strings.Cut(part, ": ")
		switch key {
		case "source":
		case "folder":
			p.folder = value
		case "want":
			p.want = value
		case "files":
			for _, f := range strings.Fields(value) {
				p.files[f] = &fstest.MapFile{}
			}
		case "gpus":
			for _, f := range strings.Fields(value) {
				n, err := strconv.ParseInt(f, 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				p.gpus = append(p.gpus, int32(n))
			}
		default:
			t.Fatalf("unknown heading %q", part)
		}
	}
	return p
}

// load performs the steps of a load, without the model file.
func (p published) load() (*inferencepb.ModelConfig, modelconfig.Faults) {
	cfg, pos, faults := modelconfig.Parse("config.pbtxt", []byte(p.text))
	if faults.Err() != nil {
		return nil, faults
	}
	newest, _ := fs.ReadDir(p.files, "1") // nothing: as if there were no version
	if more := modelconfig.CompleteBackend(cfg, p.folder, newest); more.Err() != nil {
		return cfg, more
	}
	modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{GPUs: p.gpus})
	return cfg, modelconfig.Validate(cfg,
		modelconfig.ValidateOptions{Positions: pos, Folder: p.folder, Files: p.files, GPUs: p.gpus})
}

// TestPublishedConfigurations_A025_A041_A043 loads configurations that people use. Each must be valid, and unchanged by
// Format and by JSON, or be refused at the right position.
func TestPublishedConfigurations_A025_A041_A043(t *testing.T) {
	paths, err := filepath.Glob("testdata/published/*.pbtxt")
	if err != nil || len(paths) < 69 {
		t.Fatalf("testdata/published has %d files, %v; want at least 69", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".pbtxt"), func(t *testing.T) {
			p := readPublished(t, path)
			cfg, faults := p.load()
			errs := faults.Errors()
			if p.want != "" {
				if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), p.want) {
					t.Errorf("faults %v, want the first to begin with %q", errs, p.want)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatalf("faults: %v", errs)
			}
			again, _, f := modelconfig.Parse("", []byte(modelconfig.Format(cfg)))
			if f.Err() != nil || !proto.Equal(again, cfg) {
				t.Errorf("written as text and read again: %v, %v; want %v", again, f, cfg)
			}
			again, _, f = modelconfig.ParseJSON("", modelconfig.MarshalJSON(cfg))
			if f.Err() != nil || !proto.Equal(again, cfg) {
				t.Errorf("written as JSON and read again: %v, %v; want %v", again, f, cfg)
			}
			if cmp.Or(cfg.Platform, cfg.Backend) == "" {
				t.Errorf("neither platform nor backend: %v", cfg)
			}
			hasFile := false
			for _, f := range modelconfig.ModelFiles(cfg) {
				for there := range p.files {
					hasFile = hasFile || strings.HasPrefix(there+"/", "1/"+f+"/")
				}
			}
			if !hasFile && len(p.files) > 0 && len(modelconfig.ModelFiles(cfg)) > 0 {
				t.Errorf("the model is looked for in %v, the files are %v", modelconfig.ModelFiles(cfg), p.files)
			}
		})
	}
}
