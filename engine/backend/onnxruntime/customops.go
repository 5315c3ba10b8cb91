package onnxruntime

import (
	"os"
	"path/filepath"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/onnxruntime/capi"
	"nereid/engine/status"
)

// customOps loads the libraries of custom operators that a configuration names. Their code runs in this process, and a
// client may send the configuration: only libraries in the model's folder and in the allowed folders are loaded.
func (o *sessionOptions) customOps(s backend.Spec, allowed []string) error {
	for _, name := range s.Config.GetModelOperations().GetOpLibraryFilename() {
		path, err := opLibrary(s, name, allowed)
		if err != nil {
			return err
		}
		if err := capi.RegisterCustomOps(o.pointer(), path); err != nil {
			return runtimeError(err)
		}
	}
	return nil
}

// opLibrary returns the path of a library in the model's folder, the version's folder or an allowed folder. An absolute
// path must be inside one of these after symbolic links are resolved.
func opLibrary(s backend.Spec, name string, allowed []string) (string, error) {
	folders := append([]string{s.ModelFolder, s.VersionFolder}, allowed...)
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = candidates[:0]
		for _, folder := range folders {
			candidates = append(candidates, filepath.Join(folder, name))
		}
	}
	outside := ""
	for _, c := range candidates {
		path, err := filepath.EvalSymlinks(c)
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		for _, folder := range folders {
			if within(folder, path) {
				return path, nil
			}
		}
		outside = path
	}
	if outside != "" {
		return "", status.Errorf(status.InvalidArg,
			"model '%s': op_library_filename %q is %s, outside the model's folder; move it there, or allow its "+
				"folder with --backend-config=onnxruntime,op-library-directory=%s",
			s.ModelName, name, outside, filepath.Dir(outside))
	}
	return "", status.Errorf(status.InvalidArg,
		"model '%s': op_library_filename %q is not in the model's folder %s; put it there, or into a folder allowed "+
			"with --backend-config=onnxruntime,op-library-directory=<folder>",
		s.ModelName, name, s.ModelFolder)
}

// within reports whether a path without symbolic links is inside a folder.
func within(folder, path string) bool {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil || folder == "" {
		return false
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
