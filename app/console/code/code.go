package code

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/app/console/api"
	"nereid/app/console/folders"
	"nereid/app/console/rest"
	"nereid/engine/repo"
)

// List is what runs, sorted by path. Each path is in it once.
type List = []api.CodeFile

// Find lists what can run when the model folder dir is loaded under a name with a configuration text: files whose name
// or content says so, and what the configurations of the folder name.
func Find(dir, name, text string) (List, error) {
	found, err := named(dir, name, text)
	if err != nil {
		return nil, err
	}
	files, err := folders.List(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		why := runsByName(f.Path)
		if why == "" {
			if why, err = inspect(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
				return nil, err
			}
		}
		if _, known := found[f.Path]; why != "" && !known {
			found.add(f.Path, why)
		}
	}
	return found.list(), nil
}

// Added lists what the server would run with the configuration text after, and not with before. A nil text stands for
// a folder without config.pbtxt.
func Added(dir, name string, before, after *string) (List, error) {
	old, err := named(dir, name, textOf(before))
	if err != nil {
		return nil, err
	}
	next, err := named(dir, name, textOf(after))
	if err != nil {
		return nil, err
	}
	for path, reasons := range next {
		reasons = slices.DeleteFunc(reasons, func(why string) bool { return slices.Contains(old[path], why) })
		if next[path] = reasons; len(reasons) == 0 {
			delete(next, path)
		}
	}
	return next.list(), nil
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Ask returns the error that asks the user of the page for consent to run something.
func Ask(runs List) error {
	return rest.Errorf(api.CodeConsent, "%s", Refusal(runs, "agree to that by consentCode, or leave it out"))
}

// Refusal says that runs is not empty, and how to agree to that.
func Refusal(runs List, agree string) string {
	var all []string
	for _, c := range runs {
		all = append(all, c.Path+" ("+c.Why+")")
	}
	const most = 10
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return fmt.Sprintf("%s runs as code on this machine when the model is loaded; %s", strings.Join(all, ", "), agree)
}

// reasons say why something runs, by its path in the model folder.
type reasons map[string][]string

func (r reasons) add(path, why string) {
	if path = filepath.ToSlash(path); !slices.Contains(r[path], why) {
		r[path] = append(r[path], why)
	}
}

func (r reasons) list() (out List) {
	for _, path := range slices.Sorted(maps.Keys(r)) {
		out = append(out, api.CodeFile{Path: path, Why: strings.Join(r[path], "; ")})
	}
	return out
}

// runsByName describes a file whose extension stands for code; "" for other names.
func runsByName(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".py", ".pyc", ".pyd":
		return "a Python program"
	case ".pt", ".pt2", ".pth", ".torchscript", ".pkl", ".pickle", ".joblib":
		return "a pickle: unpacking it can run code"
	case ".so", ".dll", ".dylib":
		return "a native library"
	case ".sh", ".bat", ".exe":
		return "a program"
	}
	return ""
}

// versions returns the version folders of a model folder, and the entries of each.
func versions(dir string) (map[string][]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]fs.DirEntry{}
	for _, e := range entries {
		if _, ok := repo.ParseVersion(e.Name()); ok {
			inside, err := os.ReadDir(filepath.Join(dir, e.Name()))
			if err != nil {
				continue // a file with the name of a version
			}
			out[e.Name()] = inside
		}
	}
	return out, nil
}
