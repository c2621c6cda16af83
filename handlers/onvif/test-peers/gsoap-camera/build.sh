#!/bin/sh
# build.sh FOLDER - makes FOLDER/camera. Needs the Debian packages gsoap, libgsoap-dev, libssl-dev, zlib1g-dev and gcc.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
gsoap=/usr/share/gsoap
mkdir -p "$1/generated"
cd "$1/generated"
soapcpp2 -2 -c -S -L -x -I"$gsoap/import" -I"$gsoap" "$here/camera.h"
cp "$gsoap/custom/struct_timeval.c" .
gcc -O1 -w -DWITH_OPENSSL -DWITH_DOM -I. -I"$gsoap" -I"$gsoap/plugin" -I"$gsoap/import" -I"$gsoap/custom" -o ../camera \
  "$here/camera.c" soapC.c soapServer.c struct_timeval.c \
  "$gsoap/plugin/wsseapi.c" "$gsoap/plugin/smdevp.c" "$gsoap/plugin/mecevp.c" "$gsoap/plugin/threads.c" \
  -lgsoapssl -lssl -lcrypto -lz
