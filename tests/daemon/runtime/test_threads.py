"""Errors of threads are reported; a process with a hanging thread still exits with its exit code."""

import subprocess
import sys
import threading

import pytest

from edgemeta.daemon.runtime.threads import exit_process, guarded_thread


def test_an_error_is_passed_on() -> None:
    fault = KeyError("x")
    heard: list[BaseException] = []

    def fail() -> None:
        raise fault

    thread = guarded_thread("failing", fail, heard.append)
    thread.start()
    thread.join()
    assert heard == [fault]


def test_the_exit_waits_for_threads_that_end() -> None:
    going = threading.Event()
    thread = guarded_thread("ending", lambda: going.wait() and None, lambda error: None)
    thread.start()
    threading.Timer(0.05, going.set).start()
    with pytest.raises(SystemExit) as left:
        exit_process(3, timeout=10)
    assert left.value.code == 3
    assert not thread.is_alive()


HANGING = """
import threading
from edgemeta.daemon.runtime.threads import exit_process, guarded_thread
guarded_thread("hanging", threading.Event().wait, print).start()
print("said")
exit_process(5, timeout=0.05)
"""


def test_a_hanging_thread_is_abandoned() -> None:
    process = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (5, "said\n", "")
