"""Runs a command of edgemeta in a process of its own, with limits: the service does not import what it needs."""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from edgemeta.daemon.runtime.own_python import own_python
from edgemeta.model.errors import EdgemetaError

LOOKS_EVERY = 0.1
KILLED_WITHIN = 2.0
"""Seconds between SIGTERM and SIGKILL."""

MOST_OUTPUT = 1_000_000
"""Bytes of the command's output that are read."""

PYTHON, OWN_VARIABLES = own_python()
EDGEMETA = (*PYTHON, "-c", "from edgemeta.cli.main import main; main()")

BACKGROUND, WAITED_FOR = 10, 5
"""Niceness of what may take its time, and of what somebody waits for. At 19 a process gets a seventieth of a busy core,
so on a machine that is too slow for its cameras it would never end; at 10 it gets a tenth."""
SERVICE_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Variables that are for the service itself."""


class LimitedCommandError(EdgemetaError):
    """The command gave no result, with the reason in one sentence."""


@dataclass(frozen=True)
class Limits:
    """What a command may take: seconds, and megabytes (10^6 bytes) of data; and the config keys that say so.

    niceness: how far it stands back behind the service.
    """

    timeout: float
    timeout_key: str
    max_memory_mb: int
    max_memory_key: str
    niceness: int = BACKGROUND


def run_limited(
    command: Sequence[str],
    limits: Limits,
    cancelled: threading.Event,
    tell: Callable[[str], None],
    variables: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """Run a command to its end; return the JSON object that it printed.

    tell: called ten times a second with the last line of its standard error. variables: of its environment, besides
    the service's own. Raises LimitedCommandError and OSError.
    """
    limited = [*PYTHON, "-m", "edgemeta.daemon.collect.limited", str(limits.max_memory_mb)]
    limited += [str(limits.niceness), *command]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        kept = _environment(variables)
        process = subprocess.Popen(limited, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=kept, cwd="/")
        try:
            _wait(process, errors, limits, cancelled, tell)
        finally:
            _end(process)
        printed, complaint = _read(output), _last_line(_read(errors))
    if cancelled.is_set():
        raise LimitedCommandError("cancelled")
    memory = f"{limits.max_memory_mb:,}"
    if process.returncode < 0:
        raise LimitedCommandError(
            f"the command was ended by signal {-process.returncode}; {limits.max_memory_key} is {memory}"
        )
    if "MemoryError" in complaint:
        raise LimitedCommandError(f"more memory was needed than {limits.max_memory_key}, {memory} MB")
    if process.returncode:
        raise LimitedCommandError(complaint.removeprefix("edgemeta: ") or f"exit code {process.returncode}")
    return _parsed(printed)


def _wait(
    process: "subprocess.Popen[bytes]",
    errors: IO[bytes],
    limits: Limits,
    cancelled: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Wait for the command, and tell how it gets on. Raises LimitedCommandError after the timeout."""
    began = time.monotonic()
    while process.poll() is None and not cancelled.wait(LOOKS_EVERY):
        tell(_last_line(_read(errors)))
        if time.monotonic() - began > limits.timeout:
            raise LimitedCommandError(f"not done within {limits.timeout_key}, {limits.timeout:g} s")


def _environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in SERVICE_VARIABLES}
    return own | OWN_VARIABLES | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | dict(variables or {})


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(KILLED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), MOST_OUTPUT, max(0, size - MOST_OUTPUT)).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    return next((line for line in reversed(lines) if line), "")[:500]


def _parsed(text: str) -> Mapping[str, Any]:
    """Return the JSON object that a command printed. Raises LimitedCommandError."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LimitedCommandError(f"the command printed {text[:80]!r}, expected one JSON object")
    return value
