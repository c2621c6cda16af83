# The second stage of a USB machine, with process id 1 and the programs of the host. It starts udevd
# like a boot, and then becomes guest-program.mjs. When that ends, the kernel panics and QEMU ends.
exec </dev/console >/dev/console 2>&1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
. /mnt/settings
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/tmp
ip link set lo up
modprobe virtio_console
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
for subsystem in virtio virtio-ports pci usb; do udevadm trigger --action=add --subsystem-match=$subsystem; done
udevadm settle --timeout=60
cd "$AKRI_GUEST" && exec "$AKRI_NODE" guest-program.mjs /dev/virtio-ports/control
