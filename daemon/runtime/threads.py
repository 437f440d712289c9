"""Threads whose faults are heard, and which are known at the end.

An exception that nobody expected ends the service, not one thread in silence. A thread that hangs in a driver cannot be
ended: the process must then leave without Python's finalization, which would tear the thread out of C++ code and abort.
"""

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable

_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def guarded_thread(
    name: str, target: Callable[[], None], on_fatal: Callable[[BaseException], None]
) -> threading.Thread:
    """Make a thread (not started) that hands an exception which leaves `target` to `crashed`.

    It never keeps the process alive: what hangs in a driver must not hold up the end.
    """

    def run() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - handed on, not swallowed
            on_fatal(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    _threads.add(thread)
    return thread


def leave(code: int, patience: float) -> None:
    """End the process with an exit code; threads of ours have `patience` seconds to end before they are left behind."""
    deadline = time.monotonic() + patience
    for thread in list(_threads):
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in list(_threads)):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
