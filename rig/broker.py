"""A mosquitto of one's own on a loopback port, which may be stopped, killed, frozen and started again."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rig.patience import RigError, free_port, until

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"

KEEPING = ("persistence true", "autosave_interval 1", "max_inflight_messages 0", "max_queued_messages 0")
"""Lines of its config: retained messages are saved every second, and a subscriber gets all there is at once."""


class Mosquitto:
    """Not running until `start`; `lines` go into its config."""

    def __init__(self, folder: Path, lines: Sequence[str] = ("allow_anonymous true",)) -> None:
        self.folder = folder
        self.lines = lines
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def installed() -> bool:
        """Whether there is one on this machine."""
        return shutil.which("mosquitto", path=PATH) is not None

    def start(self) -> None:
        """Start, and wait until it listens. Raises RigError."""
        program = shutil.which("mosquitto", path=PATH)
        if program is None:
            raise RigError("mosquitto is not installed (Debian package mosquitto)")
        user = ["user root"] if os.geteuid() == 0 else []
        lines = [f"listener {self.port} 127.0.0.1", f"persistence_location {self.folder}/", *user, *self.lines, ""]
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join(lines))
        self.process = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
        until(self.answers, "mosquitto to listen")

    def answers(self) -> bool:
        """Whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal and wait for the end; nothing where it does not run."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Let it hang: its connections stay and nothing is answered."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running.send_signal(signal.SIGCONT)

    def forget(self) -> None:
        """Lose what it saved, while it does not run."""
        (self.folder / "mosquitto.db").unlink(missing_ok=True)

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None, "the broker does not run"
        return self.process
