"""The service runs under the unit's own list of system calls: what is not on it fails with EPERM, as under systemd."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.daemon.capture.sources.stream.lost_camera import LostCamera

SANDBOXED = """
import os, subprocess, sys
import seccomp

def members(group):
    command = ["systemd-analyze", "syscall-filter", "--no-pager", group]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = [line.strip() for line in said.splitlines()[1:]]
    names = {word for word in words if word and word[0] not in "#@"}
    return names.union(*(members(word) for word in words if word.startswith("@")))

allowed = set()
for line in open(sys.argv[1]):
    key, _, groups = line.strip().partition("=")
    if key == "SystemCallFilter":
        words = groups.lstrip("~").split()
        named = set().union(*(members(word) if word[0] == "@" else {word} for word in words))
        allowed = allowed - named if groups.startswith("~") else allowed | named
sandbox = seccomp.SyscallFilter(seccomp.ERRNO(1))
for name in allowed:
    if seccomp.resolve_syscall(seccomp.Arch(), name) >= 0:
        sandbox.add_rule(seccomp.ALLOW, name)
sandbox.load()
try:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
except PermissionError:
    os.execv(sys.argv[2], sys.argv[2:])
sys.exit("the sandbox has no effect")
"""
"""Run by the system's Python, which has Debian's bindings of libseccomp; execs argv[2:] under the filter of argv[1]."""


@pytest.fixture
def sandbox(repository: Path) -> list[str]:
    """The command before a command that puts it under the unit's filter."""
    python = shutil.which("python3", path="/usr/bin")
    found = python and subprocess.run([python, "-c", "import seccomp"], stderr=subprocess.DEVNULL, check=False)
    if python is None or not found or found.returncode or shutil.which("systemd-analyze") is None:
        pytest.skip("no libseccomp for Python, or no systemd-analyze (Debian packages python3-seccomp, systemd)")
    return [python, "-c", SANDBOXED, str(repository / "systemd" / "edgemeta.service")]


TOLD = """
import os, resource
print(os.getpriority(os.PRIO_PROCESS, 0), resource.getrlimit(resource.RLIMIT_DATA)[0])
"""


def test_teaching_can_lower_its_priority_and_limit_its_memory(sandbox: list[str]) -> None:
    """Its launcher must be a child of the service, not of the init process."""
    command = [sys.executable, "-m", "edgemeta.daemon.collect.limited", "300", "19", sys.executable, "-c", TOLD]
    reported = subprocess.run([*sandbox, *command], capture_output=True, text=True, timeout=60, check=False)
    assert (reported.stdout, reported.stderr, reported.returncode) == ("19 300000000\n", "", 0)


STREAM = """
import os, sys
from pathlib import Path
from edgemeta.daemon.capture.source import SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.source_address import SourceAddress
source = make_source(SourceSpec(SourceAddress(sys.argv[1]), timeout=20))
source.open()
shape = source.read().pixels.shape
process = source._process._id
print(*shape, os.getpriority(os.PRIO_PROCESS, process), Path(f"/proc/{process}/oom_score_adj").read_text().strip())
source.close()
"""


def test_a_network_stream_has_its_own_process_of_low_priority(sandbox: list[str]) -> None:
    camera = LostCamera()
    try:
        command = [*sandbox, sys.executable, "-c", STREAM, camera.address]
        reported = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    finally:
        camera.close()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    nice = max(own, min(own + 5, 9))
    assert (reported.stdout, reported.stderr, reported.returncode) == (f"48 64 3 {nice} 800\n", "", 0)


def test_the_service_classifies_frames_shows_its_page_and_stops_in_order(sandbox: list[str], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "cameras: {front: {source: 'synthetic://'}}\nbackend: {name: cpu, options: {threads: 2}}\n"
        "mqtt: {host: 127.0.0.1, port: 1}\nweb: {enabled: true, port: 0}\n"
    )
    log = tmp_path / "log"
    program = str(Path(sys.executable).with_name("edgemeta"))
    with log.open("w") as output:
        service = subprocess.Popen([*sandbox, program, "run", str(config)], stderr=output, env=os.environ)
    try:
        deadline = time.monotonic() + 60
        while "camera front: running" not in log.read_text():
            assert service.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        page = re.search(r"page at (http://127\.0\.0\.1:[0-9]+/)", log.read_text())
        assert page is not None, log.read_text()
        for path in ("healthz", "api/state", "metrics"):
            with urllib.request.urlopen(page[1] + path, timeout=60) as answer:
                assert answer.status == 200
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0, log.read_text()
    finally:
        service.kill()
        service.wait()
    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith("stopped\n")
