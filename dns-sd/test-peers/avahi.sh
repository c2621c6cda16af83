#!/bin/sh
# avahi.sh HOST-NAME SERVICE-FILE...: Debian's avahi-daemon, without D-Bus and with directories of its own.
set -eu
host=$1
shift
mount -t tmpfs tmpfs /run
for file; do cat "$file" >"/run/$(basename "$file")"; done
mount -t tmpfs tmpfs /etc/avahi
mkdir /etc/avahi/services
for file; do mv "/run/$(basename "$file")" /etc/avahi/services; done
cat >/etc/avahi/avahi-daemon.conf <<CONF
[server]
host-name=$host
enable-dbus=no
use-ipv4=yes
use-ipv6=yes
[publish]
publish-workstation=no
CONF
exec avahi-daemon --no-drop-root --no-chroot --no-rlimits
