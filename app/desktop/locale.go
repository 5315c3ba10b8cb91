package desktop

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"nereid/frontend"
)

// variables are values to set in the environment; an empty one is removed.
type variables map[string]string

// SetEnvironment sets what GTK and WebKit read from the environment. It must be called before the server starts: C
// libraries read the environment in their threads, and crash if it grows meanwhile. New must be called before it.
func SetEnvironment() error {
	v := localeFor(os.Getenv)
	x11 := slices.Contains([]string{"", "unspecified", "x11"}, os.Getenv("XDG_SESSION_TYPE"))
	if x11 && os.Getenv("GDK_BACKEND") == "" {
		v["GDK_BACKEND"] = "x11" // as Wails does, which is too late
	}
	if err := v.apply(); err != nil {
		return fmt.Errorf("preparing the environment of the window: %w", err)
	}
	return nil
}

// localeFor returns what must change in the environment (see os.Getenv) before GTK reads it.
//
//   - WebKit takes its language from there. With "C", which containers and services have, navigator.language is "C".
//     No Intl constructor accepts it: the page would fail before it shows anything.
//   - GTK sets the whole process to the user's locale. With a decimal comma, C code that reads numbers (model files,
//     options of a runtime) would read 0.5 as 0: LC_NUMERIC stays "C".
func localeFor(getenv func(string) string) variables {
	v := variables{"LC_NUMERIC": "C"}
	all := getenv("LC_ALL")
	if all != "" { // it would win over LC_NUMERIC
		v["LC_ALL"], v["LANG"], v["LC_MESSAGES"], v["LC_CTYPE"] = "", all, "", ""
	}
	if noLanguage(cmp.Or(all, getenv("LC_MESSAGES"), getenv("LANG"))) {
		v["LANG"], v["LC_MESSAGES"] = "en_US.UTF-8", ""
	}
	return v
}

// noLanguage reports whether a locale names no language.
func noLanguage(locale string) bool {
	name, _, _ := strings.Cut(locale, ".")
	return name == "" || name == "C" || name == "POSIX"
}

// apply changes the environment of this process.
func (v variables) apply() error {
	for name, value := range v {
		var err error
		if value == "" {
			err = os.Unsetenv(name)
		} else {
			err = os.Setenv(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// words are the texts of the menu and the dialogs.
type words struct {
	file, openFile, openFolder, browser, reload, quit string
	models, allFiles, save                            string
	unsavedTitle, unsaved                             string // of the question before edits are dropped

	// Of the icon in the tray: actions, and states, which take numbers of models.
	open, pause, resume, paused string
	ready, failed               string

	// notification returns the text of an event in the user's language.
	notification func(text string) string
}

// wordsFor returns the texts in the user's language, if the page has it.
func wordsFor(getenv func(string) string) words {
	if strings.HasPrefix(cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")), "zh") {
		return words{
			file: "文件", openFile: "打开模型文件…", openFolder: "打开模型文件夹…", browser: "在浏览器中打开", reload: "重新载入页面", quit: "退出",
			models: "模型 (*.onnx, *.zip)", allFiles: "所有文件", save: "保存",
			unsavedTitle: "未保存的更改", unsaved: "页面有未保存的更改。要放弃更改并关闭吗？",
			open: "打开 Nereid", pause: "暂停", resume: "继续", paused: "已暂停：请求会被拒绝",
			ready: "就绪的模型：%d", failed: "就绪的模型：%d，未就绪：%d",
			notification: func(text string) string { return frontend.Chinese("events", text) },
		}
	}
	return words{
		file: "File", openFile: "Open Model File…", openFolder: "Open Model Folder…", browser: "Open in Browser",
		reload: "Reload Page", quit: "Quit",
		models: "Models (*.onnx, *.zip)", allFiles: "All Files", save: "Save",
		unsavedTitle: "Unsaved Changes", unsaved: "The page has unsaved changes. Drop them and close?",
		open: "Open Nereid", pause: "Pause", resume: "Resume", paused: "Paused: requests are refused",
		ready: "Models ready: %d", failed: "Models ready: %d, not ready: %d",
		notification: func(text string) string { return text },
	}
}
