"""Damaged configs on reload: a service takes a good one or says why not, and then nothing of it has changed."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.reload import reload
from edgemeta.daemon.service.service import Service
from tests.daemon.service.quiet_service import running_quietly

Running: TypeAlias = tuple[Service, Path]
"""A service and its config file."""

PIECES = [
    *(b"top_k: 0", b"\t", b"&a *a", b"!!python/object:os.system {}", b"\xff\xfe", b"\0", b"null", b"- ", b": ", b"{["),
    *(b"1e999", b"-1", b"'", b"\n\n", b"cameras:", b"source:", b"  ", b"\\ud800", b"<<: *x", b"0x10", b".."),
    b"mqtt: {port: 70000}",
]


def damaged(good: bytes, chance: random.Random) -> bytes:
    """Do one to four things to a config: change a byte, put a piece in, cut it, delete, double or exchange lines."""
    content = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        lines = bytes(content).split(b"\n")
        line = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                content[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                content[at:at] = chance.choice(PIECES)
            case 2:
                del content[at:]
            case 3:
                content[:] = b"\n".join(lines[:line] + lines[line + 1 :])
            case 4:
                content[:] = b"\n".join([*lines, lines[line]])
            case 5:
                other = chance.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                content[:] = b"\n".join(lines)
    return bytes(content)


@pytest.fixture
def service(write_config: Callable[..., Path], tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Running]:
    """A running service without a broker. No line names the model: swaps have their own tests."""
    path = write_config(
        cameras={"front": {"source": "synthetic://", "fps": 1, "publish": {"frames": "change"}}},
        state={"min_frames": 3, "window_frames": 5, "enter_score": 0.6, "leave_score": 0.5},
        label_map={"car": "vehicle", "truck": "vehicle"},
        homeassistant={"enabled": True},
        mqtt={"host": "127.0.0.1", "port": free_port()},
        data_folder=str(tmp_path),
        log={"level": "error"},
    )
    good = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({key: good[key] for key in good if key not in ("model", "backend")}))
    with running_quietly(path) as made:
        yield made, path


@pytest.mark.parametrize(
    "count", [200, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.fuzz, pytest.mark.timeout(7200)])]
)
def test_a_damaged_config_is_reported_and_changes_nothing(
    service: Running, count: int, fed: Callable[[str, int], None]
) -> None:
    running, path = service
    good = path.read_bytes()
    chance = random.Random(5)
    refused = 0
    for _ in range(count):
        path.write_bytes(damaged(good, chance))
        before = running.in_use.plan
        outcome = reload(path, running).message
        assert outcome.isprintable(), outcome
        if outcome.startswith("config not reloaded: "):
            refused += 1
            assert re.search(r"found .+, expected .+", outcome), outcome
            assert running.in_use.plan is before
        else:
            assert outcome.startswith("config reloaded: "), outcome
            assert (running.in_use.plan is not before) == ("applied" in outcome)
            assert running.in_use.plan.loaded_models == before.loaded_models
    fed("configs, reloaded by a running service", count)
    path.write_bytes(good)
    assert reload(path, running).message.startswith("config reloaded: ")
    assert running.in_use.plan.config == prepare(path, running.in_use.plan).config
    assert count / 4 < refused < count, "most damage is a mistake, and some is none"
