"""The command that teaches runs in a process of its own, with limits; every end of it is told in one sentence."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.collect.teacher import KEPT, Teacher
from edgemeta.daemon.config.collect import TeachConfig
from rig.waiting import wait_until

WRITES = """
import json, os, sys, resource
open(sys.argv[sys.argv.index("--out") + 1], "w").write("a model")
limit, oom = resource.getrlimit(resource.RLIMIT_DATA)[0], open("/proc/self/oom_score_adj").read()
told = {"nice": os.nice(0), "notify": "NOTIFY_SOCKET" in os.environ, "limit": limit, "oom": oom}
print(json.dumps({"accuracy": 0.975, "arguments": sys.argv[1:]} | told))
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Teacher]]:
    made: list[tuple[Teacher, list[BaseException]]] = []

    def start(program: str, in_use: tuple[str, ...] = (), **limits: Any) -> Teacher:
        errors: list[BaseException] = []
        folder = PictureFolder(tmp_path / "collected" / "front", (0.0, 0.0, 1.0, 1.0))
        for label in ("open", "closed"):
            folder.add(label, "front", datetime.now(timezone.utc), b"jpeg")
        config = TeachConfig.model_validate(limits)
        command = (sys.executable, "-c", program)
        teacher = Teacher(
            {"front": folder}, tmp_path / "taught", lambda: config, lambda: in_use, errors.append, command
        )
        made.append((teacher, errors))
        return teacher

    yield start
    for teacher, errors in made:
        teacher.stop(10.0)
        assert errors == []


def taught(teacher: Teacher) -> Any:
    teacher.start("front")
    wait_until(lambda: teacher.running is None, "the end")
    return teacher.last


def test_the_command_gets_the_folder_and_its_limits(
    make: Callable[..., Teacher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    last = taught(make(WRITES, max_memory_mb=300, backbone="resnet8-cifar10"))
    assert (last.state, last.reason) == ("done", None)
    assert last.file == tmp_path / "taught" / "front-1.safetensors"
    assert last.file.read_text() == "a model"
    result = dict(last.result)
    assert result.pop("arguments") == [
        *(str(tmp_path / "collected" / "front"), "--out", str(last.file), "--name", "front-1"),
        *("--json", "--backbone", "resnet8-cifar10"),
    ]
    assert result == {"accuracy": 0.975, "nice": 10, "notify": False, "limit": 300_000_000, "oom": "1000\n"}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('edgemeta: 2 pictures of open are too few')", "2 pictures of open are too few"),
        ("import os; os.abort()", "ended by signal 6"),
        ("x = bytearray(10**9)", "more memory was needed than `teach.max_memory_mb`, 300 MB"),
        ("print('no object')", "expected one JSON object"),
        ("print('{}')", "wrote no model file"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_every_failure_has_a_reason(make: Callable[..., Teacher], program: str, reason: str) -> None:
    last = taught(make(program, max_memory_mb=300))
    assert last.state == "failed"
    assert reason in last.reason
    assert last.file is None


SLEEPS = """
import os, sys, time
print("step 1 of 2", file=sys.stderr, flush=True)
open(sys.argv[1] + "/pid", "w").write(str(os.getpid()))
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_in(folder: Path) -> int:
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "", "the command")
    return int((folder / "pid").read_text())


def test_it_shows_how_it_gets_on_and_can_be_cancelled(make: Callable[..., Teacher], tmp_path: Path) -> None:
    teacher = make(SLEEPS)
    teacher.start("front")
    wait_until(lambda: teacher.last is not None and teacher.last.step == "step 1 of 2", "its step")
    with pytest.raises(CollectError, match="a network is being taught for camera front just now"):
        teacher.start("front")
    pid = pid_in(tmp_path / "collected" / "front")
    teacher.cancel()
    wait_until(lambda: teacher.running is None, "its end")
    assert teacher.last is not None
    assert teacher.last.reason == "cancelled"
    assert not is_alive(pid)


def test_it_has_a_timeout(make: Callable[..., Teacher], tmp_path: Path) -> None:
    last = taught(make(SLEEPS, timeout=1.5))
    assert last.reason == "not done within `teach.timeout`, 1.5 s"
    folder = tmp_path / "collected" / "front"
    # On a busy machine the process may have ended before it wrote its number.
    assert not (folder / "pid").exists() or not is_alive(pid_in(folder))


@pytest.mark.parametrize("number", [0, 1])
def test_two_labels_are_needed(make: Callable[..., Teacher], number: int) -> None:
    teacher = make(WRITES)
    folder = teacher._folders["front"]
    for label in ("open", "closed")[number:]:
        folder.discard(folder.pictures(label))
    with pytest.raises(CollectError, match=f"found pictures of {number} label.*expected at least 2"):
        teacher.start("front")
    with pytest.raises(CollectError, match="found camera 'back', expected one of front"):
        teacher.start("back")


@pytest.mark.gate("3 s: six processes")
def test_old_model_files_are_deleted_but_not_those_in_use(make: Callable[..., Teacher], tmp_path: Path) -> None:
    used = str(tmp_path / "taught" / "front-1.safetensors")
    teacher = make(WRITES, in_use=(f"{used}@sha256:{'0' * 64}",))
    for number in range(1, KEPT + 3):
        assert taught(teacher).file.name == f"front-{number}.safetensors"
    numbers = sorted(int(path.stem.partition("-")[2]) for path in (tmp_path / "taught").iterdir())
    assert numbers == [1, *range(3, KEPT + 3)]


DIES = """
import os, sys, threading, time
from pathlib import Path
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.collect.teacher import Teacher
from edgemeta.daemon.config.collect import TeachConfig
folder = PictureFolder(Path(sys.argv[1]), (0.0, 0.0, 1.0, 1.0))
teacher = Teacher({"front": folder}, Path(sys.argv[2]), TeachConfig, tuple, print, (sys.executable, "-c", sys.argv[3]))
teacher.start("front")
time.sleep(600)
"""


@pytest.mark.gate("3 s: a service and its command")
def test_it_ends_with_a_service_that_is_killed(make: Callable[..., Teacher], tmp_path: Path) -> None:
    import subprocess

    make(WRITES)  # makes the pictures
    folder = tmp_path / "collected" / "front"
    service = subprocess.Popen([sys.executable, "-c", DIES, str(folder), str(tmp_path / "taught"), SLEEPS])
    try:
        pid = pid_in(folder)
    finally:
        service.kill()
        service.wait()
    wait_until(lambda: not is_alive(pid), "its end")
