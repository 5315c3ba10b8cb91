"""The desktop build: a real window under Xvfb that shows the same page as a browser."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from PIL import Image

import models
from harness import BINARY, ROOT, REFERENCE, until, virtual_screen

pytestmark = [pytest.mark.desktop, pytest.mark.skipif(REFERENCE, reason="tests this program's window")]
DESKTOP = os.environ.get("NEREID_DESKTOP", str(ROOT / "build/bin/nereid-desktop"))
SHOTS = pathlib.Path(os.environ.get("SHOTS", ROOT / ".cache/test-logs/desktop"))
SAMPLES = ROOT / "models-sample"
LIMIT = 60  # seconds; on an idle machine these steps take two


@pytest.fixture(scope="module")
def display():
    """Starts a virtual screen. Returns its value for DISPLAY."""
    for program in ("Xvfb", "xdotool", "import"):
        assert shutil.which(program), f"{program} is missing; run build/setup/system.sh test"
    with virtual_screen() as number:
        yield number


class Window:
    """The running program with its window."""

    def __init__(self, work, display, repository, *options):
        self.data = work / "data"
        self.env = {**os.environ, "DISPLAY": display, "LANG": "C.UTF-8", "LIBGL_ALWAYS_SOFTWARE": "1",
                    "GSETTINGS_BACKEND": "memory"}
        self.env.pop("WAYLAND_DISPLAY", None)
        self.argv = [DESKTOP, f"--model-repository={repository}", f"--data-dir={self.data}", *options]
        self.argv += [f"--{p}-port=0" for p in ("http", "grpc", "metrics", "ui")]
        self.log_path = work / "window.log"

    def __enter__(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.env, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def says(self, pattern):
        assert self.process.poll() is None, self.log()
        found = re.search(pattern, self.log())
        return found and (found[1] if found.groups() else True)

    def up(self):
        """Waits until the page has requested its data from the server."""
        self.gui = until(lambda: self.says(r"Started GUI at (http://\S+)/"), LIMIT, "the server is not up", self.log)
        until(lambda: self.says("The window shows the page"), LIMIT, "the page has not called the server", self.log)

    def xdotool(self, *args):
        return subprocess.run(["xdotool", *args], env=self.env, capture_output=True, text=True).stdout.split()

    def type(self, window, key, done):
        """Presses a key until it has taken effect. A visible window may not accept keys yet."""
        end = time.monotonic() + LIMIT
        while not done():
            assert time.monotonic() < end, f"{key} does nothing:\n{self.log()[-3000:]}"
            self.xdotool("windowfocus", "--sync", window)
            self.xdotool("key", key)
            soon = time.monotonic() + 5
            while not done() and time.monotonic() < soon:
                time.sleep(0.1)

    def end(self, limit=LIMIT):
        """Waits until the program exits and returns its status."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program has not exited in {limit} s:\n{self.log()[-3000:]}")

    def shot(self, name):
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        subprocess.run(["import", "-window", "root", str(path)], env=self.env, check=True)
        return path

    def get(self, path):
        with urllib.request.urlopen(self.gui + path, timeout=60) as r:
            return json.load(r)


def painted(path):
    """Whether the picture shows text: it has many shades, and no colour fills nearly all of it."""
    with Image.open(path) as picture:
        grey = picture.convert("L").resize((700, 450))
        counts = sorted(grey.histogram(), reverse=True)
        return counts[0] < 0.97 * 700 * 450 and sum(1 for c in counts if c > 20) > 20


def dialog_height(path):
    """Height of the import dialog: its longest white stretch along the left edge. 0 if the page behind it is not
    darkened."""
    with Image.open(path) as picture:
        grey = picture.convert("L")
        if grey.getpixel((100, 860)) > 200:
            return 0
        return max(len(run)
                   for run in "".join("#" if grey.getpixel((172, y)) > 250 else " " for y in range(60, 860)).split(" "))


def test_only_the_desktop_build_needs_gtk():
    for program, wanted in ((BINARY, False), (DESKTOP, True)):
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        assert ("libgtk-3" in libraries, "libwebkit2gtk" in libraries) == (wanted, wanted), f"{program}:\n{libraries}"


def test_the_linker_removes_unused_methods():
    """A single method call by name, as in text/template, makes the linker keep all methods. The program grows by
    half."""
    with open(BINARY, "rb") as f:
        program = f.read()
    assert b"nereid/app.Main" in program, "the program must contain the names of functions"
    assert b"text/template.(*state).evalField" not in program


def test_window_shows_the_page_and_closes_on_sigterm(tmp_path, display):
    with Window(tmp_path, display, SAMPLES) as w:
        w.up()
        assert w.xdotool("search", "--onlyvisible", "--name", "^Nereid$"), "no window named Nereid"
        until(lambda: painted(w.shot("window")), LIMIT, f"the window stays blank, see {SHOTS}/window.png", w.log)
        assert "the page reports an error" not in w.log()
        assert w.get("/api/server")["desktop"], "the page must know that file dialogs can be opened"
        w.process.terminate()
        assert w.end() == 0, w.log()
    assert not (w.data / "window.json").exists(), "window.json still exists"


ENVIRONMENT_WATCH = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int gtk;
int gtk_init_check(int *argc, char ***argv) {
  fprintf(stderr, "GTK starts\n");
  gtk = 1;
  return ((int (*)(int *, char ***))dlsym(RTLD_NEXT, "gtk_init_check"))(argc, argv);
}
int setenv(const char *name, const char *value, int replace) {
  if (gtk && !getenv(name)) fprintf(stderr, "the environment grows beside GTK: %s\n", name);
  return ((int (*)(const char *, const char *, int))dlsym(RTLD_NEXT, "setenv"))(name, value, replace);
}
"""


def test_the_environment_does_not_grow_beside_gtk(tmp_path, display):
    """GTK's threads read the environment. If it grows meanwhile it moves, and they read freed memory."""
    (tmp_path / "watch.c").write_text(ENVIRONMENT_WATCH)
    watch = tmp_path / "watch.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", watch, tmp_path / "watch.c"], check=True)
    w = Window(tmp_path, display, SAMPLES, "--model-control-mode=explicit")
    w.env["LD_PRELOAD"] = str(watch)
    for name in ("ORT_DISABLE_TELEMETRY", "CUDA_DEVICE_ORDER", "GDK_BACKEND"):
        w.env.pop(name, None)
    with w:
        w.up()
        http = w.says(r"Started HTTPService at ([\d.:]+)")
        load = urllib.request.Request(f"http://{http}/v2/repository/models/add_sub/load", method="POST")
        urllib.request.urlopen(load, timeout=60)
        assert w.says("GTK starts")
        assert "the environment grows" not in w.log(), w.log()


def test_second_start_shows_the_first_window(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    with Window(tmp_path, display, tmp_path / "models") as w:
        w.up()
        note = w.data / "window.json"
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
        w.xdotool("windowunmap", window)
        until(lambda: not w.xdotool("search", "--onlyvisible", "--name", "^Nereid$"), LIMIT, "the window does not hide",
              w.log)

        second = subprocess.run(w.argv, env=w.env, capture_output=True, text=True, timeout=LIMIT)
        assert (second.returncode, second.stderr) == (0, "")
        assert f"running already (pid {w.process.pid})" in second.stdout
        until(lambda: w.xdotool("search", "--onlyvisible", "--name", "^Nereid$"), LIMIT,
              "the window does not come back", w.log)

        # A wrong secret is refused, and without window.json a second start fails.
        request = urllib.request.Request(w.gui + "/api/desktop/show", method="POST",
                                         headers={"Authorization": "Bearer x", "X-Nereid": "1"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code == 403
        note.unlink()
        third = subprocess.run(w.argv, env=w.env, capture_output=True, text=True, timeout=LIMIT)
        assert third.returncode == 1 and "is in use by another nereid" in third.stderr
        assert w.process.poll() is None, w.log()


def test_quit_in_the_menu_unloads_the_models(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    with Window(tmp_path, display, tmp_path / "models") as w:
        w.up()
        (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
        w.type(window, "ctrl+q", lambda: w.process.poll() is not None)
        assert w.end() == 0, w.log()
        assert "successfully unloaded 'identity'" in w.log()


class ClientMessage(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                ("display", ctypes.c_void_p),
                ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong), ("format", ctypes.c_int),
                ("data", ctypes.c_long * 5),
                ("rest", ctypes.c_long * 12)]  # an XEvent has the size of its largest member


def close_window(display, window):
    """Asks a window to close, as a window manager does when the user clicks its close button."""
    x = ctypes.CDLL("libX11.so.6")
    x.XOpenDisplay.restype, x.XInternAtom.restype = ctypes.c_void_p, ctypes.c_ulong
    screen = ctypes.c_void_p(x.XOpenDisplay(display.encode()))
    protocols, delete = (x.XInternAtom(screen, name, False) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
    message = ClientMessage(type=33, send_event=1, window=int(window), message_type=protocols, format=32)
    message.data[0] = delete
    assert x.XSendEvent(screen, ctypes.c_ulong(int(window)), False, ctypes.c_long(0), ctypes.byref(message))
    x.XCloseDisplay(screen)


def settings(w, **change):
    """Changes the window's settings, as the page does."""
    now = w.get("/api/desktop")
    body = {"keepRunning": now["keepRunning"], "autostart": now["autostart"], **change}
    request = urllib.request.Request(w.gui + "/api/desktop", method="PUT", data=json.dumps(body).encode(),
                                     headers={"X-Nereid": "1", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as r:
        return json.load(r)


def test_closing_the_window_exits_unless_keep_running_is_set(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    visible = lambda w: w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")  # noqa: E731
    for keep in (True, False):
        with Window(tmp_path, display, tmp_path / "models") as w:
            w.up()
            if not keep:
                assert w.get("/api/desktop")["keepRunning"], "the setting of the previous run is lost"
            assert settings(w, keepRunning=keep)["keepRunning"] == keep
            (window,) = visible(w)
            close_window(display, window)
            if keep:
                until(lambda: not visible(w), LIMIT, "the window does not hide", w.log)
                assert w.get("/api/server")["live"], "the server must continue to run"
                second = subprocess.run(w.argv, env=w.env, capture_output=True, text=True, timeout=LIMIT)
                assert second.returncode == 0, second.stderr
                until(lambda: visible(w), LIMIT, "the window does not come back", w.log)
                (window,) = visible(w)
                # Quit ends the program in spite of keepRunning
                w.type(window, "ctrl+q", lambda: w.process.poll() is not None)
            assert w.end() == 0, w.log()
            assert "successfully unloaded 'identity'" in w.log()


@pytest.fixture
def bus():
    """Starts a private session bus. Returns its address."""
    assert shutil.which("dbus-daemon") and shutil.which("gdbus"), "run build/setup/system.sh test"
    daemon = subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--print-address=1", "--nopidfile"],
                              stdout=subprocess.PIPE, text=True)
    yield daemon.stdout.readline().strip()
    daemon.kill()
    daemon.wait()


def test_G026_the_icon_in_the_tray_opens_pauses_and_quits(tmp_path, display, bus):
    models.write_identity(tmp_path / "models", "identity")
    w = Window(tmp_path, display, tmp_path / "models")
    w.env |= {"DBUS_SESSION_BUS_ADDRESS": bus, "NO_AT_BRIDGE": "1"}
    with w:
        w.up()

        def call(path, method, *args):
            done = subprocess.run(["gdbus", "call", "--address", bus, "--dest",
                                   f"org.kde.StatusNotifierItem-{w.process.pid}-1", "--object-path", path, "--method",
                                   method, "--", *args], capture_output=True, text=True)
            return done.stdout if done.returncode == 0 else ""

        def menu():
            return call("/MenuBar", "com.canonical.dbusmenu.GetLayout", "0", "-1", "[]")

        def click(entry):
            assert call("/MenuBar", "com.canonical.dbusmenu.Event", str(entry), "clicked", "<0>", "0"), w.log()

        def ready():
            try:
                http = w.says(r"Started HTTPService at (\S+:\d+)")
                return urllib.request.urlopen(f"http://{http}/v2/health/ready", timeout=60).status
            except urllib.error.HTTPError as refused:
                return refused.code

        until(lambda: "Models ready: 1" in menu(), LIMIT, "the menu does not show the state", w.log)
        visible = lambda: w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")  # noqa: E731
        (window,) = visible()
        w.xdotool("windowunmap", window)
        until(lambda: not visible(), LIMIT, "the window does not hide", w.log)
        click(2)
        until(visible, LIMIT, "the window does not come back", w.log)
        click(3)
        assert "Paused" in menu() and "Resume" in menu() and ready() == 400
        click(3)
        assert "Models ready: 1" in menu() and ready() == 200
        click(5)
        assert w.end() == 0, w.log()
        assert "successfully unloaded 'identity'" in w.log()


def test_a_load_that_fails_is_a_notification(tmp_path, display, bus):
    """Once per failure: not for what loads, nor for a broken model that nobody loads."""
    for name in ("good", "broken", "second", "never"):
        models.write_identity(tmp_path / "models", name)
    for name in ("broken", "second", "never"):
        for file in (tmp_path / "models" / name / "1").iterdir():
            file.write_bytes(b"no model\nno model")
    told = tmp_path / "bus.log"
    with open(told, "wb") as out:
        monitor = subprocess.Popen(["dbus-monitor", "--address", bus, "interface=org.freedesktop.Notifications"],
                                   stdout=out)
    notes = lambda: re.findall(r'member=Notify\n +string ".*"\n +uint32 0\n +string ""\n +string "(.*)"\n'  # noqa: E731
                               r' +string "(.*)"\n', told.read_text())
    w = Window(tmp_path, display, tmp_path / "models", "--model-control-mode=explicit", "--load-model=broken",
               "--exit-on-error=false")
    w.env |= {"DBUS_SESSION_BUS_ADDRESS": bus, "NO_AT_BRIDGE": "1"}
    try:
        until(lambda: "NameAcquired" in told.read_text(), LIMIT, "dbus-monitor does not listen")
        with w:
            w.up()
            http = w.says(r"Started HTTPService at (\S+:\d+)")
            load = lambda name: urllib.request.urlopen(urllib.request.Request(  # noqa: E731
                f"http://{http}/v2/repository/models/{name}/load", method="POST"), timeout=60)
            until(lambda: len(notes()) == 1, LIMIT, "no notification of the model at the start", told.read_text)
            load("good")
            with pytest.raises(urllib.error.HTTPError):
                load("second")
            until(lambda: len(notes()) == 2, LIMIT, "no notification of the second model", told.read_text)
            w.process.terminate()
            assert w.end() == 0, w.log()
    finally:
        monitor.kill()
        monitor.wait()
    assert [title for title, _ in notes()] == ["Nereid: broken", "Nereid: second"], notes()
    for (_, text), name in zip(notes(), ("broken", "second")):
        assert text.startswith("load failed: Internal: "), text
        assert f"{tmp_path}/models/{name}/1/model.onnx failed" in text, text


def test_autostart_writes_a_desktop_entry(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    w = Window(tmp_path, display, tmp_path / "models")
    w.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    with w:
        w.up()
        entry = tmp_path / "config/autostart/nereid.desktop"
        now = w.get("/api/desktop")
        assert (now["autostart"], now["autostartPath"], now["autostartWhyNot"]) == (False, str(entry), "")
        assert settings(w, autostart=True)["autostart"]
        text = entry.read_text()
        assert f'"{os.path.realpath(DESKTOP)}" "--model-repository={tmp_path / "models"}"' in text, text
        assert f"\nPath={os.getcwd()}\n" in text, text
        assert not settings(w, autostart=False)["autostart"] and not entry.exists()
        w.process.terminate()
        assert w.end() == 0, w.log()


def test_sigterm_closes_a_window_with_an_open_dialog(tmp_path, display):
    """The menu's file dialog runs GTK's main loop. It must not keep the process of a stopped server running."""
    models.write_identity(tmp_path / "models", "identity")
    with Window(tmp_path, display, tmp_path / "models") as w:
        w.up()
        (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
        w.type(window, "ctrl+o", lambda: w.xdotool("search", "--onlyvisible", "--name", "^Open Model File$"))
        w.shot("dialog")
        w.process.terminate()
        assert w.end() == 0, w.log()
        assert "successfully unloaded 'identity'" in w.log()


def test_dropped_file_opens_the_import_dialog(tmp_path, display):
    """Drags a file with spaces in its name from another window. The page imports it by its path."""
    source = tmp_path / "dragsource"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "gtk+-3.0"], capture_output=True, text=True,
                           check=True).stdout.split()
    subprocess.run(["cc", "-o", source, pathlib.Path(__file__).with_name("dragsource.c"), *flags], check=True)
    models.write_identity(tmp_path / "models", "identity")
    dropped = tmp_path / "my model.onnx"
    shutil.copyfile(SAMPLES / "add_sub/1/model.onnx", dropped)

    with Window(tmp_path, display, tmp_path / "models", "--model-control-mode=poll") as w:
        w.up()
        until(lambda: painted(w.shot("before-drop")), LIMIT, "the window stays blank", w.log)
        files = subprocess.Popen([source, dropped.as_uri()], env=w.env, stdout=subprocess.PIPE, text=True)
        try:
            assert files.stdout.readline() == "ready\n"
            w.xdotool("mousemove", "10", "10", "sleep", "0.3", "mousedown", "1")
            # GTK starts a drag after some pixels, and the target must see the pointer enter
            for x in range(30, 701, 67):
                w.xdotool("mousemove", str(x), str(x * 450 // 700), "sleep", "0.1")
            w.shot("dragging")
            w.xdotool("sleep", "0.3", "mouseup", "1")

            def staged():
                assert w.process.poll() is None, w.log()
                return [p.name for p in (w.data / "imports").glob("*/in/*.onnx")]

            names = until(staged, LIMIT, "nothing was imported", w.log)
            assert "my model.onnx" in names, names
            until(lambda: dialog_height(w.shot("dropped")) > 400, LIMIT,
                  f"no dialog with its contents opens, see {SHOTS}/dropped.png", w.log)
        finally:
            files.kill()
            files.wait()
        w.process.terminate()
        assert w.end() == 0, w.log()


def test_files_of_the_command_line_open_the_import_dialog(tmp_path, display):
    """As a file manager does it: at the first start, and at a second one from another folder."""
    models.write_identity(tmp_path / "models", "identity")
    shutil.copyfile(SAMPLES / "add_sub/1/model.onnx", tmp_path / "my model.onnx")
    folder = tmp_path / "elsewhere"
    shutil.copytree(SAMPLES / "add_sub", folder / "whole")
    w = Window(tmp_path, display, tmp_path / "models")
    w.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    second = lambda *files: subprocess.run([*w.argv, *files], env=w.env, cwd=folder, capture_output=True, text=True,  # noqa: E731
                                           timeout=LIMIT)
    options, w.argv = w.argv, [*w.argv, os.path.relpath(tmp_path / "my model.onnx")]
    with w:
        w.up()
        w.argv = options

        def staged():
            assert w.process.poll() is None, w.log()
            return [p.name for p in (w.data / "imports").glob("*/in/**/*.onnx")]

        until(lambda: staged() == ["my model.onnx"], LIMIT, "nothing was imported", w.log)
        until(lambda: dialog_height(w.shot("opened")) > 400, LIMIT, f"no dialog opens, see {SHOTS}/opened.png", w.log)
        assert settings(w, autostart=True)["autostart"]
        assert "my model" not in (tmp_path / "config/autostart/nereid.desktop").read_text()
        (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
        w.type(window, "Escape", lambda: not staged())

        gone = second("gone.onnx")
        assert (gone.returncode, gone.stdout) == (1, "")
        assert gone.stderr == "error: gone.onnx cannot be opened: no such file or directory\n"
        typo = subprocess.run([DESKTOP, "lsit"], env=w.env, capture_output=True, text=True, timeout=LIMIT)
        assert typo.returncode == 1 and 'unknown command "lsit"' in typo.stderr, typo.stderr

        done = second("whole")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"running already (pid {w.process.pid}); its window opens {folder / 'whole'}" in done.stdout
        until(lambda: staged() == ["model.onnx"], LIMIT, "the second start's folder was not imported", w.log)
        until(lambda: dialog_height(w.shot("handed")) > 400, LIMIT, f"no dialog opens, see {SHOTS}/handed.png", w.log)
        w.process.terminate()
        assert w.end() == 0, w.log()


def test_files_need_a_window(tmp_path):
    (tmp_path / "m.onnx").touch()
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([DESKTOP, f"--data-dir={tmp_path / 'data'}", tmp_path / "m.onnx"], env=env, text=True,
                          capture_output=True, timeout=LIMIT)
    assert done.returncode == 1 and "m.onnx needs a window, and there is no display" in done.stderr


def test_the_window_asks_before_it_drops_unsaved_edits(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    asking = lambda w: w.xdotool("search", "--onlyvisible", "--name", "^Unsaved Changes$")  # noqa: E731
    with Window(tmp_path, display, tmp_path / "models", "--log-verbose=1") as w:
        w.up()
        (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
        until(lambda: painted(w.shot("before-edit")), LIMIT, "the window stays blank", w.log)
        # The palette opens the model's configuration; a click into its text and a key change it.
        end = time.monotonic() + LIMIT
        while not w.says("the page reports unsaved edits.*edits=true"):
            assert time.monotonic() < end, w.log()[-3000:]
            w.xdotool("windowfocus", "--sync", window)
            w.xdotool("key", "ctrl+k")
            w.xdotool("sleep", "0.5", "type", "identity: conf")
            w.xdotool("sleep", "0.5", "key", "Return")
            w.xdotool("sleep", "1", "mousemove", "400", "500", "click", "1", "type", "# mine")
            w.xdotool("sleep", "0.5")
            w.shot("edited")
        close_window(display, window)
        until(lambda: asking(w), LIMIT, "nothing is asked", w.log)
        w.shot("unsaved")
        w.type(asking(w)[0], "Escape", lambda: not asking(w))
        assert w.process.poll() is None and w.get("/api/server")["live"], w.log()
        close_window(display, window)
        until(lambda: asking(w), LIMIT, "nothing is asked the second time", w.log)
        w.type(asking(w)[0], "alt+y", lambda: w.process.poll() is not None)
        assert w.end() == 0, w.log()


def test_the_window_remembers_its_size(tmp_path, display):
    models.write_identity(tmp_path / "models", "identity")
    size = lambda w, window: [int(line.split("=")[1]) for line in w.xdotool("getwindowgeometry", "--shell", window)  # noqa: E731
                              if line.startswith(("WIDTH", "HEIGHT"))]
    for want in (None, [901, 641]):
        with Window(tmp_path, display, tmp_path / "models") as w:
            w.up()
            (window,) = w.xdotool("search", "--onlyvisible", "--name", "^Nereid$")
            if want:
                until(lambda: size(w, window) == want, LIMIT, f"the window has {size(w, window)}, not {want}", w.log)
            else:
                w.xdotool("windowsize", window, "901", "641")
                until(lambda: size(w, window) == [901, 641], LIMIT, "the window keeps its size", w.log)
            close_window(display, window)
            assert w.end() == 0, w.log()
