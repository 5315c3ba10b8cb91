package service

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"nereid/engine/system/replace"
)

// Name is the name of the unit and of its user.
const Name = "nereid"

const (
	unitPath     = "/etc/systemd/system/nereid.service"
	packagedUnit = "/usr/lib/systemd/system/nereid.service"
	configPath   = "/etc/nereid/nereid.yaml"
	programPath  = "/usr/local/bin/nereid"
	dataPath     = "/var/lib/nereid"
)

//go:embed nereid.service
var unit string

//go:embed nereid.yaml
var config string

// System is the system that has the service.
type System struct {
	// Root is the folder of the system's files, such as that of an image that is being built; "": the running system.
	// In another folder only files are written: there is no user made and nothing started.
	Root string
	// Out gets what is done, one line each.
	Out io.Writer
}

func (s *System) path(p string) string { return filepath.Join(s.Root, p) }

func (s *System) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// running reports whether systemd runs here, so that it can be asked.
func (s *System) running() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil && s.Root == ""
}

// ErrPackaged reports that the service belongs to a package.
var ErrPackaged = errors.New("the package of this system has installed the service already; use systemctl enable " +
	"--now nereid, and remove the package to remove the service")

// Install installs the service of the program at exe, and starts it. A configuration file that exists is kept.
func (s *System) Install(exe string) error {
	if err := s.check(); err != nil {
		return err
	}
	at, err := s.program(exe)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.path(configPath)); errors.Is(err, fs.ErrNotExist) {
		if err := s.write(configPath, config); err != nil {
			return err
		}
	}
	if err := s.write(unitPath, strings.Replace(unit, "/usr/bin/nereid", at, 1)); err != nil {
		return err
	}
	if s.Root != "" {
		return nil
	}
	if _, err := user.Lookup(Name); err != nil {
		if err := s.run("useradd", "--system", "--user-group", "--home-dir", dataPath, "--shell", "/usr/sbin/nologin",
			Name); err != nil {
			return err
		}
	}
	if !s.running() {
		s.say("systemd does not run here; it starts the service at the next boot after systemctl enable nereid")
		return nil
	}
	return errors.Join(s.run("systemctl", "daemon-reload"), s.run("systemctl", "enable", "--now", Name))
}

// check reports why the service can be neither installed nor removed.
func (s *System) check() error {
	if _, err := os.Stat(s.path(packagedUnit)); err == nil {
		return ErrPackaged
	}
	if s.Root == "" && os.Geteuid() != 0 {
		return errors.New("only root may change services; use sudo")
	}
	return nil
}

// program returns where the service finds the program. It copies programs from folders that are not the system's,
// because the service cannot see home folders.
func (s *System) program(exe string) (string, error) {
	if strings.HasPrefix(exe, "/usr/") || strings.HasPrefix(exe, "/opt/") {
		return exe, nil
	}
	from, err := os.Open(exe)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to := s.path(programPath)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	if err := replace.File(to, from, 0o755); err != nil { // a program that runs cannot be written, only replaced
		return "", err
	}
	s.say("copied %s to %s", exe, to)
	return programPath, nil
}

func (s *System) write(path, text string) error {
	path = s.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	s.say("wrote %s", path)
	return nil
}

// run runs a program of the system and prints its command line.
func (s *System) run(name string, args ...string) error {
	s.say("%s %s", name, strings.Join(args, " "))
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Uninstall stops and removes the service. Data, configuration, user and program stay.
func (s *System) Uninstall() error {
	if err := s.check(); err != nil {
		return err
	}
	if _, err := os.Stat(s.path(unitPath)); err != nil {
		return errors.New("the service is not installed")
	}
	var errs []error
	if s.running() {
		errs = append(errs, s.run("systemctl", "disable", "--now", Name))
	}
	errs = append(errs, os.Remove(s.path(unitPath)))
	s.say("removed %s", s.path(unitPath))
	if s.running() {
		errs = append(errs, s.run("systemctl", "daemon-reload"))
	}
	s.say("these stay: %s, %s, %s and the user %s", dataPath, configPath, programPath, Name)
	return errors.Join(errs...)
}

// Status prints whether the service is installed and, where systemd runs, its state. It returns false if it is not
// installed, or does not run.
func (s *System) Status() bool {
	for _, path := range []string{unitPath, packagedUnit} {
		if _, err := os.Stat(s.path(path)); err != nil {
			continue
		}
		s.say("installed: %s", s.path(path))
		if !s.running() {
			s.say("systemd does not run here")
			return false
		}
		cmd := exec.Command("systemctl", "status", "--no-pager", Name)
		cmd.Stdout, cmd.Stderr = s.Out, s.Out
		return cmd.Run() == nil
	}
	s.say("not installed")
	return false
}
