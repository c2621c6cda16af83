"""A pseudo terminal of COLUMNS x ROWS in which COMMAND runs as a shell would run it: as the leader of the foreground.

Writes what the terminal is sent to standard output. Reads lines from standard input: "type HEX" presses keys, "resize COLUMNS ROWS"
is a window that is drawn larger or smaller. At the end of standard input the window is closed. Ends with the command's exit code.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios


def resize(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))


columns, rows, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    resize(0, columns, rows)
    os.execvp(command[0], command)

pending = b""
while True:
    ready = select.select([terminal, 0], [], [])[0]
    if terminal in ready:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            # EIO: nobody has the terminal open any more.
            break
        os.write(1, data)
    elif 0 in ready:
        data = os.read(0, 65536)
        if data == b"":
            os.close(terminal)
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            action, *values = line.split()
            if action == b"type":
                os.write(terminal, bytes.fromhex(values[0].decode()))
            else:
                resize(terminal, *values)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
