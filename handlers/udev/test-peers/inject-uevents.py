#!/usr/bin/python3
"""Makes the kernel send events of nonexistent devices into this network namespace: use it only inside
of `unshare --net`. Usage: inject-uevents.py FROM TO"""
import socket
import struct
import sys

NETLINK_KOBJECT_UEVENT = 15
NLM_F_REQUEST_ACK = 5
MESSAGE_TYPE = 16  # the least that netlink takes

with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT) as kernel:
    kernel.bind((0, 0))
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        path = f"/devices/virtual/test/{number}"
        payload = f"add@{path}\0ACTION=add\0DEVPATH={path}\0SUBSYSTEM=test\0".encode()
        kernel.sendto(struct.pack("=IHHII", 16 + len(payload), MESSAGE_TYPE, NLM_F_REQUEST_ACK, 1, 0) + payload, (0, 0))
        (error,) = struct.unpack_from("=i", kernel.recv(4096), 16)
        if error:
            raise OSError(-error, "the kernel refused the event")
