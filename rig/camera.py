"""An RTSP camera in a separate process that can be killed, frozen and restarted with another frame size."""

import signal
import subprocess
from pathlib import Path

from rig.waiting import RigError, free_port

SERVER = Path(__file__).with_name("rtsp_server.py")
NEEDS = "gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-base gstreamer1.0-plugins-ugly"


class RtspCamera:
    """rtsp://HOST:PORT/cam; not running until `start`. prefix: put before its command, to run it in a namespace.

    shared: whether all clients get one encoder's stream. drawn: whether the camera draws its frames; otherwise
    they are written to the standard input of `process`, as gray bytes.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        rate: int = 30,
        prefix: tuple[str, ...] = (),
        port: int | None = None,
        shared: bool = True,
        drawn: bool = True,
    ) -> None:
        self.host = host
        self.port = free_port() if port is None else port
        self._rate = rate
        self._prefix = prefix
        self._clients = ["shared" if shared else "own", *([] if drawn else ["stdin"])]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its URL."""
        return f"rtsp://{self.host}:{self.port}/cam"

    @staticmethod
    def installed() -> bool:
        """Return whether this machine can run one."""
        probe = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"
        try:
            command = ["/usr/bin/python3", "-c", probe]
            return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
        except OSError:
            return False

    def start(self, width: int = 320, height: int = 240) -> None:
        """Start, and wait until it accepts connections. Raises RigError."""
        description = [self.host, self.port, width, height, self._rate, *self._clients]
        command = [*self._prefix, "/usr/bin/python3", str(SERVER), *map(str, description)]
        frames = subprocess.PIPE if "stdin" in self._clients else None
        self.process = subprocess.Popen(command, stdin=frames, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            raise RigError(f"no RTSP server (Debian packages {NEEDS})")

    def kill(self) -> None:
        """Kill it; does nothing if it is not running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
            self.process = None

    def freeze(self) -> None:
        """Freeze it (SIGSTOP): connections stay open without frames."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue it (SIGCONT)."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
