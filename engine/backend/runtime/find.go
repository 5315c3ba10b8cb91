package runtime

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
	"nereid/engine/system/glob"
)

// find returns the paths at which the framework's library may be, in the order in which they are tried: the one that a
// setting names; else that of the installed environment; else that of the machine's Python; else names for the
// system's loader.
func (b *Backend) find(ctx context.Context) []string {
	if set := b.o.Settings["library"]; set != "" {
		if found := b.f.below(set); found != "" {
			return []string{found}
		}
		return []string{set} // the library itself; if it is not, the error has its path
	}
	for _, folder := range glob.In(b.o.Environment, "lib/python3*/site-packages/"+b.f.pkg) {
		if found := b.f.below(folder); found != "" {
			return []string{found}
		}
	}
	if folder := b.machine.folder(ctx, b.o.Interpreter, b.f.pkg); folder != "" {
		if found := b.f.below(folder); found != "" {
			return []string{found}
		}
	}
	return b.f.names
}

// below returns the library below the folder of a package, "" if there is none.
func (f *framework) below(folder string) string {
	for _, place := range f.places {
		if found := glob.In(folder, place); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// missing returns the error text for a framework that is not installed.
func (b *Backend) missing(model string) string {
	return b.f.title + " is not installed, which model '" + model + "' needs: " + b.o.Install +
		", or name the folder of its library by --backend-config=" + b.f.name + ",library=<path>"
}

// open opens the first library in the list that can be opened.
func (p *processOptions) open(try func(path string) error) error {
	var err error
	for _, path := range p.Library {
		if err = try(path); err == nil {
			return nil
		}
		if filepath.IsAbs(path) {
			return status.Errorf(status.Unavailable, "%w", err)
		}
	}
	return status.Errorf(status.Unavailable, "%s: %w", p.Missing, err)
}

// modelPath returns the path of a model's file or folder. Errors: NotFound, with the names that were tried; InvalidArg
// if the backend has none for the platform.
func modelPath(s backend.Spec) (string, error) {
	names := modelconfig.ModelFiles(s.Config)
	for _, n := range names {
		path := filepath.Join(s.VersionFolder, n)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	if len(names) == 0 {
		return "", status.Errorf(status.InvalidArg, "no model file of model '%s' is known for backend '%s' and "+
			"platform '%s'; remove the platform, or name the file in default_model_filename",
			s.ModelName, s.Config.GetBackend(), s.Config.GetPlatform())
	}
	return "", status.Errorf(status.NotFound,
		"no model file of model '%s' version %d: %s has none of %s; name the file in default_model_filename",
		s.ModelName, s.Version, s.VersionFolder, strings.Join(names, ", "))
}

// visible returns the environment variables that limit an instance's process to its GPU.
func visible(p backend.Placement) []string {
	switch p.Kind {
	case inferencepb.ModelInstanceGroup_KIND_CPU:
		return []string{"CUDA_VISIBLE_DEVICES=-1"}
	case inferencepb.ModelInstanceGroup_KIND_GPU:
		return []string{"CUDA_VISIBLE_DEVICES=" + device.CUDAName(p.Device)}
	}
	return nil
}

// parameter returns a parameter of the configuration, "" if it is not set.
func parameter(c *inferencepb.ModelConfig, name string) string {
	return strings.TrimSpace(c.GetParameters()[name].GetStringValue())
}

// flag reads a boolean parameter.
func flag(c *inferencepb.ModelConfig, name string) (bool, error) {
	switch v := strings.ToLower(cmp.Or(parameter(c, name), "no")); v {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	default:
		return false, status.Errorf(status.InvalidArg, "parameter %s is %q, want YES or NO", name, parameter(c, name))
	}
}

// count reads a parameter that is a number, at least 0; -1: it is not set.
func count(c *inferencepb.ModelConfig, name string) (int, error) {
	v := parameter(c, name)
	if v == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, status.Errorf(status.InvalidArg, "parameter %s is %q, want a number from 0 on", name, v)
	}
	return n, nil
}
