"""Waking a thread that polls: once for many calls, and never too late."""

import select
import threading
import time
from collections import deque

from edgemeta.daemon.mqtt.wakeup import Wakeup


def is_readable(wakeup: Wakeup, timeout_ms: int = 0) -> bool:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    return bool(poll.poll(timeout_ms))


def test_it_is_readable_from_set_to_clear() -> None:
    wakeup = Wakeup()
    assert not is_readable(wakeup)
    for _ in range(3):
        wakeup.set()
    assert is_readable(wakeup)
    wakeup.clear()
    assert not is_readable(wakeup)
    wakeup.set()
    assert is_readable(wakeup)


def test_nothing_added_before_set_is_missed() -> None:
    """Four threads add 20,000 numbers; the waiting one, which reads only when it is woken, gets all of them."""
    wakeup = Wakeup()
    queue: deque[int] = deque()

    def add() -> None:
        for number in range(5000):
            queue.append(number)
            wakeup.set()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken = 0
    deadline = time.monotonic() + 60
    while taken < 20_000:
        assert time.monotonic() < deadline, f"{taken} of 20000, {len(queue)} in the queue"
        if is_readable(wakeup, 1000):
            wakeup.clear()
            while queue:
                queue.popleft()
                taken += 1
    for thread in threads:
        thread.join()
