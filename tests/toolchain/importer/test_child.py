"""Work on hostile input in a child process: its result, its errors, its limits, its death."""

import os
import signal
import time
from typing import NoReturn

import numpy as np
import pytest

from edgemeta.toolchain.importer.child import ChildError, in_child


def test_the_result_comes_back_whatever_its_size() -> None:
    assert in_child(lambda: b"x" * (5 << 20), 1 << 30, 60) == b"x" * (5 << 20)


def test_an_error_is_one_line() -> None:
    def fail() -> NoReturn:
        raise ValueError("first\n  second")

    with pytest.raises(ChildError, match=r"^first second$"):
        in_child(fail, 1 << 30, 60)


def test_memory_is_limited() -> None:
    with pytest.raises(ChildError, match="it takes more than 256 MiB to read"):
        in_child(lambda: int(np.ones(1 << 30, np.uint8).sum()), 1 << 28, 60)


def test_time_is_limited() -> None:
    begin = time.monotonic()
    with pytest.raises(ChildError, match=r"it takes longer than 0\.2 s to read"):
        in_child(lambda: time.sleep(600), 1 << 30, 0.2)
    assert time.monotonic() - begin < 60


def test_its_death_is_an_error() -> None:
    with pytest.raises(ChildError, match="was ended by it"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 1 << 30, 60)
