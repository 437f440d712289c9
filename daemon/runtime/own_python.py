"""A Python that imports the same packages as this one, for a process of its own."""

import os
import sys


def own_python() -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command and the environment variables that it needs.

    The Debian package's command runs without the system's packages and sets `sys.path` itself: then that path is passed
    on. Elsewhere (virtual environments, editable installations) the same program finds the same packages.
    """
    if not sys.flags.no_site:
        return (sys.executable,), {}
    return (sys.executable, "-S"), {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
