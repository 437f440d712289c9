"""Networks are fetched by a command in a process of its own; how it gets on, and why it fails, is told."""

import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.service import model_fetcher
from edgemeta.daemon.service.model_fetcher import ModelFetcher
from edgemeta.model.known.registry import KnownNetwork, known_networks

CONTENT = b"a model"
GETS = """
import json, os, sys, time
out = sys.argv[sys.argv.index("--out") + 1]
for line in ("downloading small.tflite: 50%", "making the model"):
    open(out + ".said", "w").close()
    print("edgemeta: " + line, file=sys.stderr, flush=True)
    while os.path.exists(out + ".said"):
        time.sleep(0.01)
open(out, "wb").write(b"a model")
print(json.dumps({"notes": ["the file names no labels"], "arguments": sys.argv[1:]}))
"""


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_fetcher, "TELLS_EVERY", 0.0)


@pytest.fixture
def network() -> KnownNetwork:
    digest = hashlib.sha256(CONTENT).hexdigest()
    return known_networks()["visual-wake-words"].model_copy(update={"digest": digest})


class Run:
    """One fetch to its end: what came of it, and what was shown meanwhile; the command goes on once that is shown."""

    def __init__(self, folder: Path, network: KnownNetwork, program: str, **swap: Any) -> None:
        cameras = {"a": {"source": "synthetic://"}}
        config = Config.model_validate({"cameras": cameras, "data_folder": str(folder), "swap": swap})
        self.folder = folder
        self.shown: list[int | None] = []
        self.ended, self.errors = threading.Event(), list[BaseException]()
        self.content: bytes | None = None
        self.reason: str | None = None
        self.fetcher = ModelFetcher(self._changed, self.errors.append, (sys.executable, "-c", program))
        self.refused = self.fetcher.start("small", network, config, self._fetched)
        self.busy = self.fetcher.start("other", network, config, self._fetched)

    def _changed(self) -> None:
        if self.fetcher.running is not None:
            self.shown.append(self.fetcher.running.percentage)
        for said in self.folder.rglob("*.said"):
            said.unlink()

    def _fetched(self, content: bytes | None, reason: str | None) -> None:
        self.content, self.reason = content, reason
        self.ended.set()

    def end(self) -> None:
        assert self.ended.wait(60)
        self.fetcher.end("small", self.reason)
        assert self.fetcher.running is None
        assert self.errors == []


def test_the_model_comes_with_its_progress_and_nothing_is_left(
    tmp_path: Path, network: KnownNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run = Run(tmp_path, network, GETS)
    assert (run.refused, run.busy) == (None, "small is being fetched just now")
    run.end()
    assert (run.content, run.reason, run.fetcher.failed) == (CONTENT, None, {})
    assert run.shown == [None, 50, None]
    assert [each.message for each in caplog.records][1:] == [
        "model small: making the model",
        "model small: the file names no labels",
    ]
    assert list((tmp_path / model_fetcher_folder(tmp_path)).iterdir()) == []


def model_fetcher_folder(folder: Path) -> str:
    (found,) = [each.name for each in folder.iterdir()]
    return found


@pytest.mark.parametrize(
    ("program", "swap", "reason"),
    [
        ("import sys; sys.exit('edgemeta: net.onnx: the server refuses it')", {}, "net.onnx: the server refuses it"),
        ("import time; time.sleep(600)", {"update_timeout": 0.3}, "not done within `swap.update_timeout`, 0.3 s"),
        (GETS.replace("a model", "another"), {}, "found the SHA-256"),
        ("print('{}')", {}, "No such file"),
    ],
)
def test_what_fails_is_one_sentence(
    tmp_path: Path, network: KnownNetwork, program: str, swap: dict[str, Any], reason: str
) -> None:
    run = Run(tmp_path, network, program, **swap)
    run.end()
    assert run.content is None
    assert reason in run.fetcher.failed["small"]
    assert "\n" not in run.fetcher.failed["small"]


def test_without_the_workshop_s_packages_nothing_is_downloaded(
    tmp_path: Path, network: KnownNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds: Callable[[str], Any] = lambda name: None if name == "tflite" else name  # noqa: E731
    monkeypatch.setattr(model_fetcher, "find_spec", finds)
    run = Run(tmp_path, network, GETS)
    wanted = "small needs the extra `import`: found no package tflite: pip install 'edgemeta[import]'"
    assert (run.refused, run.fetcher.failed["small"], run.fetcher.running) == (wanted, wanted, None)
