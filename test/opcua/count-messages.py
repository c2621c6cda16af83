# usage: count-messages.py INTERFACE
# Prints a line of JSON each second: all packets of the interface in that second, and the Publish and
# Republish requests in them, of OPC UA without security.
import json
import socket
import struct
import sys
import time

# The ids of the binary encodings (OPC UA part 6, NodeIds.csv).
PUBLISH, REPUBLISH = 826, 832
ALL_PROTOCOLS, IPV4, TCP = 3, 0x0800, 6


def tcp_payload(frame):
    if len(frame) < 54 or struct.unpack_from("!H", frame, 12)[0] != IPV4 or frame[23] != TCP:
        return b""
    tcp = 14 + 4 * (frame[14] & 15)
    end = 14 + struct.unpack_from("!H", frame, 16)[0]
    return frame[tcp + 4 * (frame[tcp + 12] >> 4) : end]


def requests(payload):
    """The encoding ids of the messages that begin in a segment."""
    while payload[:3] == b"MSG" and len(payload) >= 28:
        # After the headers a node id of four bytes: 1, the namespace, the id.
        if payload[24:26] == b"\x01\x00":
            yield struct.unpack_from("<H", payload, 26)[0]
        size = struct.unpack_from("<I", payload, 4)[0]
        payload = payload[max(size, 1) :]


link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
link.bind((sys.argv[1], 0))
second = int(time.monotonic())
packets, ids = 0, []
while True:
    link.settimeout(max(0.001, second + 1 - time.monotonic()))
    try:
        frame = link.recv(65536)
        packets += 1
        ids += requests(tcp_payload(frame))
    except TimeoutError:
        pass
    while time.monotonic() >= second + 1:
        line = {"packets": packets, "publish": ids.count(PUBLISH), "republish": ids.count(REPUBLISH)}
        print(json.dumps(line), flush=True)
        second += 1
        packets, ids = 0, []
