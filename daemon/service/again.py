"""Starts the service again in its process: under a service manager, in a container and in a terminal alike."""

import os
import sys
from typing import NoReturn

from edgemeta.daemon.runtime.sd_notify import Notifier


def start_again(notifier: Notifier) -> NoReturn:
    """Replace this process by a new one of the same command line. Its threads end, and its files are closed."""
    notifier.to_environment(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the command line of this process
