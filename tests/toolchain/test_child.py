"""Work on hostile input in a child process: its result, its errors, its limits, its death."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from edgemeta.toolchain.child import ChildError, in_child
from rig.waiting import wait_until


def test_the_result_comes_back_whatever_its_size() -> None:
    assert in_child(lambda: b"x" * (5 << 20), 1 << 30, 60) == b"x" * (5 << 20)


def test_an_error_is_one_line() -> None:
    def fail() -> NoReturn:
        raise ValueError("first\n  second")

    with pytest.raises(ChildError, match=r"^first second$"):
        in_child(fail, 1 << 30, 60)


def test_memory_is_limited() -> None:
    with pytest.raises(ChildError, match="it takes more memory than 256 MiB"):
        in_child(lambda: int(np.ones(1 << 30, np.uint8).sum()), 1 << 28, 60)


def test_time_is_limited() -> None:
    begin = time.monotonic()
    with pytest.raises(ChildError, match=r"^it takes longer than 0\.2 s$"):
        in_child(lambda: time.sleep(600), 1 << 30, 0.2)
    assert time.monotonic() - begin < 60


def test_its_death_is_an_error() -> None:
    with pytest.raises(ChildError, match=r"^its process was ended by it \(SIGKILL\)$"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 1 << 30, 60)


def test_what_it_has_started_ends_with_it(tmp_path: Path) -> None:
    """A program that a driver's library starts would else live on, and hold the device."""
    pid = tmp_path / "pid"

    def start() -> None:
        program = subprocess.Popen(["/bin/sleep", "600"])
        pid.write_text(str(program.pid))
        time.sleep(600)

    with pytest.raises(ChildError, match="longer than"):
        in_child(start, None, 1)
    wait_until(lambda: not Path(f"/proc/{pid.read_text()}/cmdline").exists() or is_zombie(pid.read_text()), "its end")


def is_zombie(pid: str) -> bool:
    """Where nobody collects orphans, as in a container."""
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()
