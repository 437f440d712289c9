"""Work by several processes: results in order, and what is raised."""

import os
import signal
import time

import pytest

from edgemeta.plugins.api import BackendError
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize import parallel
from edgemeta.toolchain.quantize.parallel import by_processes


def twice_later(number: int) -> tuple[int, int]:
    """Twice the number, the later the less it is, and the process."""
    time.sleep(0.1 / (number + 1))
    return 2 * number, os.getpid()


def refuse(number: int) -> int:
    if number == 1:
        raise BackendError("no " * 200)
    return number


@pytest.mark.parametrize("processors", [1, 3])
def test_processes_give_their_results_in_order(monkeypatch: pytest.MonkeyPatch, processors: int) -> None:
    monkeypatch.setattr(parallel, "processors", lambda: processors)
    found = list(by_processes(twice_later, range(5)))
    assert [number for number, _ in found] == [0, 2, 4, 6, 8]
    assert len({process for _, process in found}) == (1 if processors == 1 else 5)


@pytest.mark.parametrize("processors", [1, 3])
def test_what_a_process_raises_is_raised_whole(monkeypatch: pytest.MonkeyPatch, processors: int) -> None:
    monkeypatch.setattr(parallel, "processors", lambda: processors)
    with pytest.raises(BackendError, match=r"^(no ){200}$"):
        list(by_processes(refuse, range(3)))


def test_a_process_that_was_ended_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "processors", lambda: 2)
    with pytest.raises(QuantizeError, match=r"^its process was ended by it \(SIGKILL\)$"):
        list(by_processes(lambda _: os.kill(os.getpid(), signal.SIGKILL), range(2)))
