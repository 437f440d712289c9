"""Notifies the service manager: datagrams on its socket, see sd_notify(3).

Without a service manager (`NOTIFY_SOCKET` not set) nothing is sent. A failure to send is logged once and otherwise
ignored.
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
    """Sends to the service manager, from any thread.

    address: path of a datagram socket, or `@name` of an abstract one; None sends nothing.
    watchdog: the watchdog's timeout in seconds; None without a watchdog.
    """

    def __init__(self, address: str | None, watchdog: float | None = None) -> None:
        self.watchdog = watchdog if address else None
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._failed = False

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str]) -> "Notifier":
        """Create one from NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and remove them from the environment.

        So processes started by sources cannot notify in the service's name. A watchdog for another process
        (WATCHDOG_PID) is ignored, see sd_watchdog_enabled(3).
        """
        address = environment.pop("NOTIFY_SOCKET", None)
        period = environment.pop("WATCHDOG_USEC", "")
        process = environment.pop("WATCHDOG_PID", None)
        ours = process is None or process == str(os.getpid())
        return cls(address, int(period) / MICROSECONDS if ours and period.isdecimal() and int(period) else None)

    def to_environment(self, environment: MutableMapping[str, str]) -> None:
        """Put back what `from_environment` has taken, for the program that replaces this one in its process."""
        if self._address is not None:
            environment["NOTIFY_SOCKET"] = self._address.replace("\0", "@", 1)
        if self.watchdog is not None:
            environment["WATCHDOG_USEC"] = str(round(self.watchdog * MICROSECONDS))

    def ready(self, status: str) -> None:
        """Report that the start, or a reload, is complete."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Report that the config is being reloaded; `ready` must follow.

        The manager compares the monotonic time with that of its request: both lines must be in one datagram.
        """
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the service stops. Nothing is sent after it, also not for other threads."""
        self._send("STOPPING=1", _status("stopping"))
        self._address = None

    def feed(self, status: str) -> None:
        """Feed the watchdog and send the status line."""
        self._send(*(["WATCHDOG=1"] if self.watchdog else []), _status(status))

    def status(self, status: str) -> None:
        """Send the status line without feeding the watchdog."""
        self._send(_status(status))

    def _send(self, *lines: str) -> None:
        address = self._address
        if address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_TIMEOUT)
                sender.sendto("\n".join(lines).encode(), address)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("cannot notify the service manager (%s): %s", lines[0], error.strerror or error)
            self._failed = True


def _status(text: str) -> str:
    """Return the assignment in one line: a line break would start another one."""
    return "STATUS=" + " ".join(text.split())
