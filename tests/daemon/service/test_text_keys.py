"""Every key of the config that takes text, with every text that is none: `check` and a running service say so."""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.reload import reload
from edgemeta.daemon.service.service import Service
from tests.daemon.service.quiet_service import running_quietly
from tools.key_table import keys

Running: TypeAlias = tuple[Service, Path]

TEXTS = [
    *("", " ", "\0", "a\0b", "a\nb", "\x1b[31m", "\u202e", "Küche", "e\u0301", "\N{PILE OF POO}", "\ufeffa", "\udcff"),
    *("a" * 256, "a" * 70_000, "/".join(["a" * 200] * 30), "ü" * 200, "9" * 5000, "0x" + "f" * 5000, "%00", "..", "/"),
    *("/dev/zero", "/dev/full", "/dev/null", "/proc/self/mem", "{PASSWORD}", "${X}", "!secret x", "~", "file:///%00"),
    *("rtsp://u:p/w@h/x", "rtsp://h:99999/x", "rtsp://[::1", "http://" + "a" * 300, "gstreamer://\0"),
    *("csi://" + "9" * 999, "synthetic://?seed=" + "9" * 5000, "v4l2:///dev/" + "a" * 300, "image://" + "a" * 300),
    *("FIFO", "FOLDER", "LOOP", "GONE", "BOM"),
]
IN_FOLDER = ("FIFO", "FOLDER", "LOOP", "GONE", "BOM")
WITHIN = 60.0
"""Seconds for one config; a pipe or device that is read would take for ever."""


def text_keys() -> list[tuple[str, ...]]:
    """The keys that take text, lists of it and entries of mappings among them."""
    found = [key.name.replace("<name>", "front").split(".") for key in keys() if "string" in str(key.schema)]
    return [(*path, "cat") if path[-1] in ("label_map", "options", "scores") else tuple(path) for path in found]


def changed(good: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """A config with another value at one key."""
    first, *rest = path
    below = good.get(first)
    if not rest:
        return good | {first: [value] if isinstance(below, list) or first in ("public_key_files", "labels") else value}
    return good | {first: changed(below if isinstance(below, dict) else {}, tuple(rest), value)}


@pytest.fixture
def service(write_config: Callable[..., Path], tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Running]:
    os.mkfifo(tmp_path / "FIFO")
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "LOOP").symlink_to(tmp_path / "LOOP")
    (tmp_path / "GONE").symlink_to(tmp_path / "nothing")
    (tmp_path / "BOM").write_bytes(b"\xef\xbb\xbfsecret\n")
    path = write_config(
        cameras={"front": {"source": "synthetic://", "fps": 1}},
        mqtt={"host": "127.0.0.1", "port": free_port()},
        swap={"shadow_frames": 0, "trial_frames": 1, "timeout": 5},
        data_folder=str(tmp_path / "state"),
        log={"level": "error"},
    )
    with running_quietly(path) as made:
        yield made, path


PAIRS = [(path, text) for path in text_keys() for text in TEXTS]


@pytest.mark.parametrize(
    "count", [80, pytest.param(len(PAIRS), marks=pytest.mark.gate("every key with every text takes half a minute"))]
)
def test_no_text_ends_a_check_or_a_running_service(service: Running, count: int) -> None:
    running, file = service
    good = yaml.safe_load(file.read_text())
    for path, text in random.Random(7).sample(PAIRS, count):
        what = (".".join(path), text[:50])
        value = str(file.parent / text) if text in IN_FOLDER and path[-1] != "source" else text
        file.write_text(yaml.safe_dump(changed(good, path, value)).replace('"\\uDCFF"', '"\\udcff"'))
        began, before = time.monotonic(), running.in_use.plan
        try:
            close_all(prepare(file, before).loaded_models.values(), but=before.loaded_models.values())
            refused = None
        except ConfigError as error:
            refused = str(error)
            assert " found " in refused or "renamed" in refused, (what, refused)
        outcome = reload(file, running)
        assert outcome.message.isprintable()
        assert len(outcome.message) < 1500, (what, outcome.message)
        assert (refused is None) or not outcome.ok, (what, refused, outcome)
        assert running.in_use.plan is before or outcome.ok
        assert time.monotonic() - began < WITHIN, what
    file.write_text(yaml.safe_dump(good))
    assert reload(file, running).ok
