"""A mosquitto on a loopback port that can be stopped, killed, frozen and restarted."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rig.waiting import RigError, free_port, wait_until

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"

KEEPING = ("persistence true", "autosave_interval 1", "max_inflight_messages 0", "max_queued_messages 1000000")
"""Config lines: retained messages are saved every second, and a subscriber gets all messages at once. (Without a limit
of those queued, 0, mosquitto 2.0.11 closes the connection at each message that it refuses.)"""


class Mosquitto:
    """Not running until `start`. lines: lines of its config."""

    def __init__(self, folder: Path, lines: Sequence[str] = ("allow_anonymous true",)) -> None:
        self.folder = folder
        self.lines = lines
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def installed() -> bool:
        """Return whether mosquitto is installed."""
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
        wait_until(self.answers, "mosquitto to listen")

    def answers(self) -> bool:
        """Return whether it accepts connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Stop it with a signal and wait for its end; does nothing if it is not running."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def reload(self) -> None:
        """Let it read its config and its files of rights again (SIGHUP)."""
        self._running.send_signal(signal.SIGHUP)

    def freeze(self) -> None:
        """Freeze it (SIGSTOP): connections stay open without answers."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue it (SIGCONT)."""
        self._running.send_signal(signal.SIGCONT)

    def delete_state(self) -> None:
        """Delete its saved state, while it is not running."""
        (self.folder / "mosquitto.db").unlink(missing_ok=True)

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None, "the broker does not run"
        return self.process
