"""Memory that one thread frees is of use to the others."""

import subprocess
import sys

THREADS, BYTES = 8, 6 << 20
PROGRAM = f"""
import sys
import threading
from pathlib import Path

from edgemeta.daemon.runtime.one_arena import share_one_arena

if sys.argv[1] == "one":
    share_one_arena()


def use() -> None:
    with turn:
        for _ in range(3):
            bytes(bytearray({BYTES}))
    used.wait()
    ended.wait()


used, turn, ended = threading.Barrier({THREADS} + 1), threading.Lock(), threading.Event()
threads = [threading.Thread(target=use) for _ in range({THREADS})]
for thread in threads:
    thread.start()
used.wait()
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmRSS")))
ended.set()
"""


def resident_bytes(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, check=True)
    return 1024 * int(done.stdout)


def test_what_a_thread_frees_is_not_kept_for_it_alone() -> None:
    """By itself glibc keeps what each has freed: the premise of this test, and of the setting."""
    assert resident_bytes("many") - resident_bytes("one") > THREADS // 2 * BYTES
