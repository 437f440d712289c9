"""The parent of the streams' processes: has loaded PyAV once, and forks a process for each stream.

Its only thread waits for the service, so that forking is safe, and the processes share what was loaded. Run by
process.py with the socket to the service as its standard input. It ends with the service, and its processes with it.

A packet with two descriptors (a stream's socket and shared memory) starts a process; the answer is its id, or a negated
`errno`. A packet with an id ends that process; the answer is its exit status, negative for the signal that ended it.
"""

import os
import signal
import socket
import time
import traceback

from edgemeta.daemon.capture.sources.stream.limits import end_with_parent, give_way
from edgemeta.daemon.capture.sources.stream.reader import Reader

DIES_WITHIN = 0.2
"""Seconds to wait for a process after SIGKILL; one that hangs in the kernel is left to it."""


def main() -> None:
    """Serve until the service ends."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a service manager sends them to every process of the service
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 64, 2)
        if not packet:
            return
        answer = _start(control, descriptors) if descriptors else _end(int(packet))
        try:
            control.send(str(answer).encode())
        except BrokenPipeError:  # the service has ended meanwhile
            return


def _start(control: socket.socket, descriptors: list[int]) -> int:
    parent = os.getpid()
    try:
        process = os.fork()
    except OSError as error:
        process = -(error.errno or 1)
    if process == 0:
        control.close()
        _read(parent, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return process


def _read(parent: int, descriptors: list[int]) -> None:
    """Be the process of one stream."""
    code = 1
    try:
        end_with_parent(parent)
        give_way()
        connection, memory = descriptors
        Reader(socket.socket(fileno=connection), memory).run()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a mistake of ours, for the service's log
        traceback.print_tb(error.__traceback__)  # without its text, which may contain the stream's address
    finally:
        os._exit(code)  # without what the parent process would do at its end


def _end(process: int) -> int:
    """End a process that has not been waited for yet, so that its id is still its own."""
    deadline = time.monotonic() + DIES_WITHIN
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        os.kill(process, signal.SIGKILL)
        time.sleep(0.001)
    return -signal.SIGKILL


if __name__ == "__main__":
    main()
