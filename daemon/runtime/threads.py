"""Threads whose exceptions are reported, and that are joined at the exit.

An unexpected exception stops the service, not only its thread. A thread that hangs in a driver cannot be stopped: the
process must then exit without Python's finalization, which would abort in the thread's C++ code.
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
    """Create a thread (not started) that passes an exception of `target` to `on_fatal`.

    It is a daemon thread: a call that hangs in a driver must not delay the exit.
    """

    def run() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - reported, not ignored
            on_fatal(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    _threads.add(thread)
    return thread


def exit_process(code: int, timeout: float) -> None:
    """Exit with a code; guarded threads have `timeout` seconds to end before they are abandoned."""
    deadline = time.monotonic() + timeout
    for thread in list(_threads):
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in list(_threads)):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
