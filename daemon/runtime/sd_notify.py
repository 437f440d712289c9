"""What the service manager is told: datagrams on the socket that it names, as sd_notify(3) describes them.

Without a service manager (`NOTIFY_SOCKET` not set) nothing is sent. A manager that does not listen is told to the log
once and stops nothing.
"""

import logging
import os
import socket
import time
from collections.abc import MutableMapping

log = logging.getLogger(__name__)

SEND_TIMEOUT = 1.0
"""Seconds to wait for a manager whose socket is full."""

MICROSECONDS = 1_000_000


class Notifier:
    """Speaks to the service manager from any thread.

    address: path of a datagram socket, or `@name` of an abstract one; None sends nothing.
    watchdog: seconds within which the manager wants to be fed; None where it wants nothing.
    """

    def __init__(self, address: str | None, watchdog: float | None = None) -> None:
        self.watchdog = watchdog if address else None
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._deaf = False

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> "Notifier":
        """Make one from NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and take them out of the environment.

        So the processes that sources start cannot speak in the service's name. A watchdog meant for another process
        (WATCHDOG_PID) is not ours, as sd_watchdog_enabled(3) says.
        """
        address = environment.pop("NOTIFY_SOCKET", None)
        period = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", None)
        ours = process is None or process == str(os.getpid())
        return cls(address, int(period) / MICROSECONDS if ours and period.isdecimal() and int(period) else None)

    def ready(self, status: str) -> None:
        """Say that the start, or a reload, is done."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Say that the config is being read again; `ready` must follow.

        The manager compares the monotonic time with that of its request: both lines belong into one datagram.
        """
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the service stops, and nothing after it, whatever other threads still want to say."""
        self._send("STOPPING=1", _status("stopping"))
        self._address = None

    def feed(self, status: str) -> None:
        """Feed the watchdog and say how the service fares."""
        self._send(*(["WATCHDOG=1"] if self.watchdog else []), _status(status))

    def status(self, status: str) -> None:
        """Say how the service fares without feeding the watchdog."""
        self._send(_status(status))

    def _send(self, *lines: str) -> None:
        address = self._address
        if address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:
                speaking.settimeout(SEND_TIMEOUT)
                speaking.sendto("\n".join(lines).encode(), address)
            self._deaf = False
        except OSError as error:
            if not self._deaf:
                log.warning("the service manager cannot be told %s: %s", lines[0], error.strerror or error)
            self._deaf = True


def _status(text: str) -> str:
    """One line: a line break would begin another assignment."""
    return "STATUS=" + " ".join(text.split())
