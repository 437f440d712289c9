"""Waiting for SIGTERM, SIGINT and SIGHUP."""

import os
import signal
import threading

import pytest

from edgemeta.daemon.runtime.signals import Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_wait_also_when_it_came_before(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Signals() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait() == number.name
        sender = threading.Thread(target=os.kill, args=(os.getpid(), number))
        sender.start()
        assert stop.wait() == number.name
        sender.join()
    assert signal.getsignal(number) is before


def test_another_thread_can_end_the_wait() -> None:
    with Signals() as stop:
        thread = threading.Thread(target=stop.interrupt)
        thread.start()
        assert stop.wait() == ""
        thread.join()
