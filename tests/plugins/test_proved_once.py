"""A model is proved once between its file and a running session, however it is loaded."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from edgemeta.cli.options import load_model, open_session
from edgemeta.daemon.service.plan import prepare_start
from edgemeta.model.prove import prove
from edgemeta.plugins.measure import random_image

CONFIG = """\
mqtt:
  host: localhost
data_folder: {folder}
model: {model}
backend:
  name: {backend}
cameras:
  door:
    source: synthetic://
"""

BACKENDS = ("reference", "cpu")


@contextmanager
def counted_proofs() -> Iterator[list[str]]:
    """Counts the calls of `prove` in this thread, by whatever name a module imported it."""
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is prove.__code__:
            calls.append(frame.f_locals["model"].name)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_command_proves_its_model_once(backend: str) -> None:
    with counted_proofs() as calls:
        model = load_model("resnet8-cifar10")
        _, session = open_session(model, backend, None, None)
        with closing(session):
            session.run(random_image(model))
    assert calls == ["resnet8-cifar10"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_service_proves_a_model_once_at_the_start(backend: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(model="resnet8-cifar10", backend=backend, folder=tmp_path / "state"))
    with counted_proofs() as calls:
        plan = prepare_start(config)
    for loaded_model in plan.loaded_models.values():
        loaded_model.close()
    assert calls == ["resnet8-cifar10"]
