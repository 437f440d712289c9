"""The service's end of the parent of the streams' processes (forkserver_main.py): started when first needed."""

import atexit
import os
import socket
import subprocess
import threading

from edgemeta.daemon.runtime.own_python import own_python

ANSWERS_WITHIN = 20.0
"""Seconds; the first answer takes as long as PyAV takes to load."""

PYTHON, OWN_VARIABLES = own_python()
COMMAND = (*PYTHON, "-m", "edgemeta.daemon.capture.sources.stream.forkserver_main")


class ForkServer:
    """Starts and ends processes of streams. Any thread may call it; a fork server that has died is started again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, connection: socket.socket, memory: int) -> int:
        """Start a process that has these descriptors; return its id. Raises OSError, for example at a limit."""
        with self._lock:
            try:
                answer = self._ask(b"start", [connection.fileno(), memory])
            except OSError:
                self._end()
                answer = self._ask(b"start", [connection.fileno(), memory])
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def end(self, process: int) -> int | None:
        """End a process; return its exit status, negative for a signal. None if the fork server has died."""
        with self._lock:
            if self._control is None:
                return None
            try:
                return self._ask(str(process).encode(), [])
            except OSError:
                self._end()
                return None

    def _ask(self, packet: bytes, descriptors: list[int]) -> int:
        if self._control is None:
            self._control = self._launch()
        socket.send_fds(self._control, [packet], descriptors)
        answer = self._control.recv(64)
        if not answer:
            raise BrokenPipeError("the parent of the streams' processes has ended")
        return int(answer)

    def _launch(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                COMMAND,
                stdin=far.fileno(),
                stdout=subprocess.DEVNULL,
                env=os.environ | OWN_VARIABLES,
                cwd="/",
            )
        except OSError:
            near.close()
            raise
        finally:
            far.close()
        near.settimeout(ANSWERS_WITHIN)
        return near

    def close(self) -> None:
        """End it, and with it its processes."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


FORK_SERVER = ForkServer()
"""The service's only one."""
atexit.register(FORK_SERVER.close)
