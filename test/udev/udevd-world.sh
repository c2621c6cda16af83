#!/bin/sh
# Runs a command in new mount, network and process namespaces with a recorded sysfs, an empty /run, a
# separate /dev, and a real udevd that receives only the events injected into this network.
# usage: unshare --mount --net --pid --fork --kill-child --mount-proc udevd-world.sh TREE COMMAND...
# TREE has the folders sys, dev and rules.d. This script removes nothing: a mistake could hit the
# real /dev and /sys.
set -e
tree=$1
shift
mount --make-rprivate /
mount --bind "$tree/sys" /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/dev/shm /run/udev/rules.d
cp "$tree"/rules.d/* /run/udev/rules.d/
for name in null zero full random urandom tty; do
  : >/run/dev/$name
  mount --bind /dev/$name /run/dev/$name
done
ln -s /proc/self/fd /run/dev/fd
cp -a "$tree/dev/." /run/dev/
mount --rbind /run/dev /dev
# The tree is not a real sysfs.
export SYSTEMD_DEVICE_VERIFY_SYSFS=0
/lib/systemd/systemd-udevd >/run/udevd.log 2>&1 &
tries=0
while [ ! -S /run/udev/control ]; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || { cat /run/udevd.log >&2; exit 1; }
  sleep 0.05
done
exec "$@"
