#!/usr/bin/env bash
# system.sh GROUP...: makes sure that the Debian packages of each group are installed.
#   test     the programs that the browser, window and ApacheBench tests start (chromium, Xvfb, ...)
#   desktop  the libraries of the desktop window
#   frameworks  PyTorch for CPUs, for the Python of Debian
#   package  the programs that make test-package starts
#   arm64    the cross compiler and what make test-arm64 starts
#   fleet    the programs that the tests of make test-fleet start
#   image    the programs that make image and make test-image start
# As root it installs missing packages. Otherwise it prints the command to run and exits with status 1.
set -euo pipefail

missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }

for group in "$@"; do
  case $group in
    test)
      need_command chromium chromium
      need_command firefox-esr firefox-esr
      need_command Xvfb xvfb
      need_command xdotool xdotool
      need_command import imagemagick
      need_command ab apache2-utils
      need_command dbus-daemon dbus-daemon
      need_command dbus-monitor dbus-bin
      need_command gdbus libglib2.0-bin
      [ "$(uname -m)" != x86_64 ] || /sbin/ldconfig -p | grep -q 'libb64\.so\.0d' || missing+=(libb64-0d) # for perf_analyzer
      ls /usr/share/fonts/truetype/*/*.ttf >/dev/null 2>&1 || missing+=(fonts-dejavu-core)
      ;;
    desktop)
      need_command pkg-config pkg-config
      need_library gtk+-3.0 libgtk-3-dev
      need_library webkit2gtk-4.1 libwebkit2gtk-4.1-dev
      ;;
    frameworks)
      [ -d /usr/lib/python3/dist-packages/torch ] || missing+=(python3-torch)
      ;;
    package)
      need_command mmdebstrap mmdebstrap
      need_command systemd-nspawn systemd-container
      need_command rpm rpm
      ;;
    arm64)
      need_command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
      [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
      need_command qemu-aarch64-static qemu-user-static
      need_command man man-db
      need_command mmdebstrap mmdebstrap
      ;;
    fleet)
      need_command java default-jre-headless
      need_command mvn maven
      ;;
    image)
      need_command mmdebstrap mmdebstrap
      need_command crun crun
      ;;
    *) echo "system.sh: unknown group '$group', want test, desktop, frameworks, package, arm64, fleet or image" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

line="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "system packages are missing; as root run:" >&2
  echo "  $line" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get -o DPkg::Lock::Timeout=600 update && apt-get -o DPkg::Lock::Timeout=600 ${line#apt-get }; } >"$log" 2>&1; then
  tail -20 "$log" >&2
  echo "installing system packages failed; the log is in $log; the command was: $line" >&2
  exit 1
fi
rm -f "$log"
