"""Runs a command with limits: python -m edgemeta.daemon.collect.limited MEGABYTES NICENESS COMMAND...

Teaching must not disturb the service. The command gets a low priority, a limit of memory, and ends with the
service whatever ends that; where the whole service has too little memory, the kernel ends this process first. The
limits are set here, in the new process: code between `fork` and `exec` is not safe in a program with threads.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the limits, then become the command."""
    megabytes, niceness, *command = sys.argv[1:]
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        sys.exit("the service has ended")
    with contextlib.suppress(OSError):  # a sandbox may forbid it; the limits below matter more
        os.nice(int(niceness))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    limit = int(megabytes) * 1_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.execv(command[0], command)  # noqa: S606 - there is no shell


if __name__ == "__main__":
    main()
