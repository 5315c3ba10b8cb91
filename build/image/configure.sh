#!/bin/sh
# configure.sh ROOT: what a container needs of the configuration of Debian packages that were only unpacked: users,
# certificates, and the link from one library of linear algebra to the other. mmdebstrap calls it.
set -e
cd "$1"
for file in passwd group; do cp "usr/share/base-passwd/$file.master" "etc/$file"; done
echo 'triton-server:x:1000:1000::/var/lib/nereid:/usr/sbin/nologin' >>etc/passwd
echo 'triton-server:x:1000:' >>etc/group
mkdir -p var/lib/nereid models etc/ssl/certs
chown 1000:1000 var/lib/nereid
cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt
for library in usr/lib/*/lapack/liblapack.so.3; do
  folder=$(dirname "$(dirname "$library")")
  ln -s blas/libblas.so.3 lapack/liblapack.so.3 "$folder"
done
