#!/bin/bash
# usage: build.sh DIRECTORY
# Compiles server.c and find.c against open62541 1.4 of Debian trixie, which is unpacked below DIRECTORY and installed nowhere,
# so that it is the same on older releases. Programs: DIRECTORY/bin/server, DIRECTORY/bin/find. Does nothing when they are there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# apt-get reads relative paths from its own directory.
out=$(realpath -m "$1")
library=$out/root/usr/lib/$(gcc -dumpmachine)
mkdir -p "$out"/{apt/lists,apt/cache,debs,root,bin}
# Several files of tests want them, at the same time.
exec 9>"$out/lock"
flock 9

if [ ! -e "$library/libopen62541.so" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -1 || true)
  if [ -z "$mirror" ]; then
    echo "apt-get knows no mirror: run apt-get update" >&2
    exit 1
  fi
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$out/apt/sources.list"
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=$out/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$out/apt/lists" -o "Dir::Cache=$out/apt/cache" -o APT::Sandbox::User=root
    # Without the second option a list that did not come is only a warning.
    -o Acquire::Retries=3 -o APT::Update::Error-Mode=any)
  "${apt[@]}" update
  (cd "$out/debs" && "${apt[@]}" download libopen62541-1.4 libopen62541-1.4-dev libmbedtls21 libmbedcrypto16 libmbedx509-7 libmbedtls-dev)
  for package in "$out"/debs/*.deb; do dpkg -x "$package" "$out/root"; done
fi

for program in server find; do
  [ "$out/bin/$program" -nt "$here/$program.c" ] && continue
  gcc -O1 -w -I"$out/root/usr/include" "$here/$program.c" -o "$out/bin/$program" -L"$library" -lopen62541 \
    -Wl,--disable-new-dtags,-rpath,"$library" -Wl,-rpath-link,"$library"
done
