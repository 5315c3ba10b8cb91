#!/bin/sh
# Unpacks the fonts for training and testing digits into .cache/fonts. Installs nothing.
#   fonts.sh        every candidate of fonts-packages.txt (160 MB to download, 410 MB unpacked)
#   fonts.sh test   only the packages of fonts-test.txt, which check.py needs to measure the accuracy
# Needs apt-get and dpkg-deb (Debian 12 has exactly these versions) and package lists (apt-get update), but not root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=$(cd "$here/../../.." && pwd)/.cache/fonts
mkdir -p "$to/deb"
case "${1:-all}" in
all) want=$(cat "$here/fonts-packages.txt") ;;
test) want=$(awk -F'\t' 'NR==FNR {if (!/^#/) need[$4]; next} {split($0, p, "="); if (p[1] in need) print}' \
	"$here/fonts-test.txt" "$here/fonts-packages.txt") ;;
*) echo "usage: fonts.sh [test]" >&2; exit 2 ;;
esac
cd "$to/deb"
for package in $want; do
	name=${package%%=*}
	set -- "$name"_*.deb
	if [ ! -f "$1" ]; then
		apt-get download -q "$package" || {
			echo "fonts.sh: $package is not available; using the version that this system offers" >&2
			apt-get download -q "$name"
		}
		set -- "$name"_*.deb
	fi
	dpkg-deb -x "$1" "$to"
done
