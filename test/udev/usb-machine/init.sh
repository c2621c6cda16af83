#!/bin/busybox sh
# The first stage of a USB machine: mounts the file tree of the host below an overlay for all writes,
# and continues with stage2.sh there.
export PATH=/bin
/bin/busybox --install -s /bin
die() {
  echo "init: $1" >/dev/console
  poweroff -f
}
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs devtmpfs /dev && mount -t tmpfs tmpfs /run || die 'no basic file systems'
for module in /modules/*; do insmod "$module" || die "insmod $module"; done

share() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro" "$1" "$2" || die "no share $1"; }
mkdir -p /run/host /run/own
share host /run/host
mount -t tmpfs tmpfs /run/own && mkdir /run/own/upper /run/own/work
mount -t overlay -o lowerdir=/run/host,upperdir=/run/own/upper,workdir=/run/own/work overlay /newroot || die 'no overlay'
cd /newroot && mkdir -p proc sys dev run lib/modules
share modules lib/modules
for tree in proc sys dev; do mount --move /$tree $tree; done
mount -t tmpfs tmpfs run && mkdir -p mnt && share stage mnt
exec switch_root /newroot /bin/sh /mnt/stage2.sh
