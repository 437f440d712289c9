"""Waiting for SIGTERM and SIGINT."""

import os
import signal
import threading

import pytest

from edgemeta.daemon.signals import StopSignal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_also_when_it_came_before(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait() == number.name
        sender = threading.Thread(target=os.kill, args=(os.getpid(), number))
        sender.start()
        assert stop.wait() == number.name
        sender.join()
    assert signal.getsignal(number) is before


def test_another_thread_may_end_the_wait() -> None:
    with StopSignal() as stop:
        thread = threading.Thread(target=stop.raise_)
        thread.start()
        assert stop.wait() == ""
        thread.join()
