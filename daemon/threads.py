"""Threads whose faults are heard: an exception that nobody expected ends the service, not one thread in silence."""

import threading
from collections.abc import Callable


def guarded_thread(name: str, target: Callable[[], None], crashed: Callable[[BaseException], None]) -> threading.Thread:
    """Make a thread (not started) that hands an exception which leaves `target` to `crashed`.

    It never keeps the process alive: what hangs in a driver must not hold up the end.
    """

    def run() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - handed on, not swallowed
            crashed(error)

    return threading.Thread(target=run, name=name, daemon=True)
