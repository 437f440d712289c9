"""A process of its own imports what the service does, also from the Debian package, which brings its own path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgemeta.daemon.runtime.own_python import own_python

ASKS = """
import json, os, subprocess, sys
sys.path += json.loads(sys.argv[1])
from edgemeta.daemon.runtime.own_python import own_python
python, variables = own_python()
program = "import edgemeta.daemon.collect.limited as module; print(module.__file__)"
environment = {"PATH": "/nowhere"} | variables
print(subprocess.run([*python, "-c", program], env=environment, cwd="/", capture_output=True, text=True))
"""


def test_here_it_is_this_program() -> None:
    assert own_python() == ((sys.executable,), {})


@pytest.mark.parametrize("flags", ["-IS", "-S"])
def test_without_site_packages_it_has_the_same_path(repository: Path, flags: str) -> None:
    """As packaging/edgemeta starts it: isolated, with a path of its own."""
    path = [str(repository / "src"), *(each for each in sys.path if each.endswith("site-packages"))]
    command = [sys.executable, flags, "-c", ASKS, json.dumps(path)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert "daemon/collect/limited.py" in done.stdout, done.stdout + done.stderr
    assert "returncode=0" in done.stdout
