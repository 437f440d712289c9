"""A serial port of Linux: 8N1, raw, without flow control, used by one program at a time."""

import errno
import fcntl
import os
import select
import struct
import termios
import time
from pathlib import Path

from edgemeta.kernels.fpga.generate.network import FpgaError

BAUDS = {int(name[1:]): getattr(termios, name) for name in dir(termios) if name[0] == "B" and name[1:].isdigit()}
"""Rates that termios knows."""

_TIOCGSERIAL, _TIOCSSERIAL, _LOW_LATENCY = 0x541E, 0x541F, 1 << 13
_SERIAL = struct.Struct("=iiIii")
"""Begin of the kernel's serial_struct: type, line, port, irq, flags."""

_CHUNK = 65536


class SerialPort:
    """An open port. Raises FpgaError, which names `path`, if it cannot be opened, is in use, or is cut."""

    def __init__(self, path: Path, baud: int) -> None:
        self.path, self.baud = path, baud
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            hint = ": is the user in the group dialout?" if error.errno == errno.EACCES else ""
            raise FpgaError(f"{path}: {error.strerror}{hint}") from error
        try:
            self._prepare(baud)
        except BaseException:
            self.close()
            raise

    def _prepare(self, baud: int) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FpgaError(f"{self.path} is in use by another program") from error
        try:
            characters = termios.tcgetattr(self._file)[6]
            characters[termios.VMIN], characters[termios.VTIME] = 1, 0
            flags = termios.CS8 | termios.CREAD | termios.CLOCAL
            termios.tcsetattr(self._file, termios.TCSANOW, [0, 0, flags, 0, BAUDS[baud], BAUDS[baud], characters])
            termios.tcflush(self._file, termios.TCIOFLUSH)
        except termios.error as error:
            raise FpgaError(f"{self.path} is no serial port of {baud} baud: {error.args[1]}") from error
        self._answer_at_once()

    def _answer_at_once(self) -> None:
        """Ask the driver not to collect bytes before it passes them on (FTDI: 16 ms). Drivers without that refuse."""
        content = bytearray(128)
        try:
            fcntl.ioctl(self._file, _TIOCGSERIAL, content)
            kind, line, port, irq, flags = _SERIAL.unpack_from(content)
            _SERIAL.pack_into(content, 0, kind, line, port, irq, flags | _LOW_LATENCY)
            fcntl.ioctl(self._file, _TIOCSSERIAL, content)
        except OSError as error:
            if error.errno not in (errno.ENOTTY, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP):
                raise FpgaError(f"{self.path}: {error.strerror}") from error

    def exchange(self, data: memoryview, deadline: float) -> tuple[int, bytes]:
        """Wait until bytes have come or some of `data` is sent; how many are sent, and what came.

        Both are nothing at the deadline, a time of `time.monotonic`. Raises FpgaError for a cable that was cut.
        """
        left = max(0.0, deadline - time.monotonic())
        try:
            readable, writable, _ = select.select([self._file], [self._file] if data else [], [], left)
            came = os.read(self._file, _CHUNK) if readable else b""
            sent = self._write(data) if writable else 0
        except OSError as error:
            raise FpgaError(f"{self.path}: the cable is cut: {error.strerror}") from error
        if readable and not came:
            raise FpgaError(f"{self.path}: the cable is cut: the port has ended")
        return sent, came

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._file, data)
        except BlockingIOError:  # less room than the driver wants for a write
            return 0

    def close(self) -> None:
        """A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
