package console

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"nereid/app/console/api"
	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// drafted is a configuration that is not running: what a text would become.
type drafted struct {
	cfg       *inferencepb.ModelConfig // nil when the text cannot be read
	completed *inferencepb.ModelConfig // cfg with what the model file says, before the defaults
	sig       *modelconfig.Signature   // of the newest version's file; nil if nobody can read it
	faults    modelconfig.Faults
	file      *modelconfig.Fault // why the newest version's file cannot be read, nil if it can
}

// withFile answers the faults of the text and, as an error or a warning, that of the model file.
func (d *drafted) withFile(s modelconfig.Severity) modelconfig.Faults {
	if d.file == nil {
		return d.faults
	}
	f := *d.file
	f.Severity = s
	return append(slices.Clone(d.faults), f)
}

// draft reads, completes and checks a configuration text (nil: no file) for the model folder, as a load would, without
// loading. folder "" checks the text alone.
func (c *Console) draft(ctx context.Context, name, folder string, text *string) drafted {
	var d drafted
	_, name = repo.Split(name)
	cfg, pos := &inferencepb.ModelConfig{}, (*modelconfig.Positions)(nil)
	if text != nil {
		if cfg, pos, d.faults = modelconfig.Parse(repo.ConfigName, []byte(*text)); len(d.faults.Errors()) > 0 || cfg == nil {
			return d
		}
	}
	d.cfg = cfg
	if folder == "" {
		d.completed = cfg
		d.faults = append(d.faults, modelconfig.Validate(cfg, modelconfig.ValidateOptions{Positions: pos})...)
		d.faults = slices.DeleteFunc(d.faults, func(f modelconfig.Fault) bool { return f.Path == "name" && cfg.GetName() == "" })
		return d
	}
	src := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "")
	numbers := src.Numbers()
	var entries []os.DirEntry
	if len(numbers) > 0 {
		entries, _ = os.ReadDir(filepath.Join(folder, strconv.FormatInt(numbers[len(numbers)-1], 10))) // empty: as if nothing were in it
	}
	if faults := modelconfig.CompleteBackend(cfg, name, entries); len(faults) > 0 {
		d.faults = append(d.faults, faults...)
		return d
	}
	d.complete(ctx, c, name, folder, pos)
	o := modelconfig.ValidateOptions{Positions: pos, Refused: lifecycle.Refused, Folder: name, Signature: d.sig, Files: os.DirFS(folder),
		GPUs: c.o.Machine.IDs(), MinCapability: c.o.Machine.MinCapability()}
	for _, b := range c.o.Backends {
		o.Backends = append(o.Backends, b.Name())
	}
	d.faults = append(d.faults, modelconfig.Validate(cfg, o)...)
	d.parameters(c, pos)
	d.versions(numbers, pos)
	d.unsupported(c, pos)
	return d
}

// unsupported adds what Triton would load and this server would refuse. It takes the place of other faults of that field.
func (d *drafted) unsupported(c *Console, pos *modelconfig.Positions) {
	path, err := lifecycle.Unsupported(d.cfg, c.backend(d.cfg.GetBackend()) != nil)
	if err == nil {
		return
	}
	place := path
	if path == "backend" {
		if !pos.Has(path) {
			place = "platform" // which names it
		}
		d.faults = slices.DeleteFunc(d.faults, func(f modelconfig.Fault) bool { return f.Path == path })
	}
	f := faultAt(pos, place, err.Error(), "")
	f.Path = path
	d.faults = append(d.faults, f)
}

// parameters adds what the backend says of the model's parameters.
func (d *drafted) parameters(c *Console, pos *modelconfig.Positions) {
	judge, ok := c.backend(d.cfg.GetBackend()).(backend.ParameterValidator)
	if !ok {
		return
	}
	for _, r := range judge.ValidateParameters(d.cfg) {
		if !r.Refused && slices.Contains(lifecycle.Parameters(), r.Name) {
			continue
		}
		path := "parameters[" + strconv.Quote(r.Name) + "]"
		fix, place := "", path
		if near := modelconfig.Suggest(r.Name, slices.Concat(r.Known, lifecycle.Parameters())); !r.Refused && near != "" {
			fix, place = "did you mean "+strconv.Quote(near)+"?", path+".key"
		} else if r.Refused {
			place = path + ".string_value"
		}
		f := faultAt(pos, place, fmt.Sprintf("parameter %q %s", r.Name, strings.TrimPrefix(r.Text, "parameter "+strconv.Quote(r.Name)+" ")), fix)
		f.Path = path
		if !r.Refused {
			f.Severity = modelconfig.SeverityWarning
		}
		d.faults = append(d.faults, f)
	}
}

// versions adds that the version policy leaves none of the versions that are there, unless a fault says so already. A
// folder without versions is no fault of the text.
func (d *drafted) versions(there []int64, pos *modelconfig.Positions) {
	told := slices.ContainsFunc(d.faults.Errors(), func(f modelconfig.Fault) bool { return strings.HasPrefix(f.Path, "version_policy") })
	if told || len(there) == 0 || len(modelconfig.ChooseVersions(d.cfg.GetVersionPolicy(), there)) > 0 {
		return
	}
	words := make([]string, len(there))
	for i, n := range there {
		words[i] = strconv.FormatInt(n, 10)
	}
	d.faults = append(d.faults, faultAt(pos, "version_policy", "the version policy leaves no version to serve",
		"choose among those that are there: "+strings.Join(words, ", ")))
}

func faultAt(pos *modelconfig.Positions, path, message, fix string) modelconfig.Fault {
	at := pos.At(path)
	return modelconfig.Fault{File: pos.File(), Line: at.Line, Col: at.Col, Path: path, Message: message, Fix: fix}
}

// complete asks the backend for the model file's signature and fills in what the text leaves open.
func (d *drafted) complete(ctx context.Context, c *Console, name, folder string, pos *modelconfig.Positions) {
	cfg := d.cfg
	sig, version, err := c.signature(ctx, name, folder, cfg)
	if err != nil {
		// Where the model lies is the server's matter, most of all while it is staged.
		text := strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), "")
		d.file = &modelconfig.Fault{Message: fmt.Sprintf("version %d: %s", version, text)}
	}
	d.sig = sig
	if sig != nil && c.o.AutoComplete {
		d.faults = append(d.faults, modelconfig.Complete(cfg, sig, modelconfig.CompleteOptions{
			DefaultMaxBatchSize: c.o.DefaultMaxBatchSize, Positions: pos})...)
	}
	d.completed = proto.CloneOf(cfg)
	modelconfig.Normalize(cfg, backend.NormalizeOptions(c.backend(cfg.GetBackend()), c.o.Machine.IDs()))
}

func (c *Console) backend(name string) backend.Backend {
	for _, b := range c.o.Backends {
		if b.Name() == name {
			return b
		}
	}
	return nil
}

// generated is the text of a configuration that is made from the model file. It leaves the name out, which is that of
// the folder.
func (d *drafted) generated() string {
	if d.completed == nil {
		return ""
	}
	cfg := proto.CloneOf(d.completed)
	cfg.Name = ""
	return modelconfig.Format(cfg)
}

// dimNames answers the names that the model file gives to the dimensions of a tensor.
func dimNames(sig *modelconfig.Signature) func(string) []string {
	if sig == nil {
		return nil
	}
	return func(name string) []string {
		for _, io := range append(slices.Clone(sig.Inputs), sig.Outputs...) {
			if io.Name == name {
				return io.DimNames
			}
		}
		return nil
	}
}

// dimNames asks the backend for the names of the dimensions of a model in a repository.
func (c *Console) dimNames(ctx context.Context, name, folder string, cfg *inferencepb.ModelConfig) func(string) []string {
	sig, _, err := c.signature(ctx, name, folder, cfg)
	if err != nil {
		return nil // the load says why
	}
	return dimNames(sig)
}

// apiFaults are faults as the editor shows them: with the end of the word that they begin at.
func apiFaults(faults modelconfig.Faults, text, name string) (out []api.Fault) {
	lines := strings.Split(text, "\n")
	for _, f := range faults {
		a := api.Fault{Line: f.Line, Col: f.Col, EndLine: f.Line, EndCol: f.Col, Severity: api.SeverityError, Message: f.Message, Field: f.Path}
		if f.Severity == modelconfig.SeverityWarning {
			a.Severity = api.SeverityWarning
		}
		if f.Fix != "" {
			a.Message += "; " + f.Fix
		}
		if f.Line > 0 && f.Line <= len(lines) {
			word := wordAt(lines[f.Line-1], f.Col)
			a.EndCol = f.Col + utf8.RuneCountInString(word)
			a.Fixes = fixesOf(f.Fix, lines[f.Line-1], a)
			if f.Path == "name" && name != "" && len(word) > 1 && (word[0] == '"' || word[0] == '\'') {
				a.Fixes = append(a.Fixes, api.Fix{Label: fmt.Sprintf("set name to %q", name), Edits: []api.Edit{{
					Line: a.Line, Col: a.Col, EndLine: a.EndLine, EndCol: a.EndCol, Text: strconv.Quote(name)}}})
			}
		}
		out = append(out, a)
	}
	return out
}

// wordAt is the name, number or quoted string that begins at a column of a line, or else one character.
func wordAt(line string, col int) string {
	r := []rune(line)
	if col < 1 || col > len(r) {
		return ""
	}
	r = r[col-1:]
	n := 0
	switch {
	case r[0] == '"' || r[0] == '\'':
		for n = 1; n < len(r) && (r[n] != r[0] || r[n-1] == '\\'); n++ {
			continue
		}
		n = min(n+1, len(r))
	default:
		for n < len(r) && (unicode.IsLetter(r[n]) || unicode.IsDigit(r[n]) || strings.ContainsRune("_.-+", r[n])) {
			n++
		}
	}
	return string(r[:max(n, 1)])
}

// runningTexts remembers the text of config.pbtxt that each serving model was loaded with: after a failed reload the
// engine tells the text that failed.
type runningTexts struct {
	mu    sync.Mutex
	texts map[string]string // guarded by mu
}

// note remembers the text of a model whose last load succeeded.
func (t *runningTexts) note(st lifecycle.ModelStatus) {
	clean := st.Err == nil && runningConfig(st) != nil
	for _, v := range st.Versions {
		clean = clean && (v.State != lifecycle.Ready || v.Reason == "") && v.State != lifecycle.Loading
	}
	if !clean {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.texts == nil {
		t.texts = map[string]string{}
	}
	t.texts[st.Name] = st.ConfigText
}

// of is the text that the serving version was loaded with or, when the console was not there to see it, its
// configuration written out.
func (t *runningTexts) of(st lifecycle.ModelStatus) string {
	t.note(st)
	t.mu.Lock()
	text, ok := t.texts[st.Name]
	t.mu.Unlock()
	if !ok {
		if cfg := runningConfig(st); cfg != nil {
			return modelconfig.Format(cfg)
		}
	}
	return text
}
