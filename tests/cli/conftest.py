"""The command as a user runs it: a subprocess away from the checkout."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.preprocess import preprocess
from edgemeta.model.zoo import find
from edgemeta.tasks.classification import logits_of

SHIPPED = "resnet8-cifar10"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def edgemeta(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Run `edgemeta ARGUMENTS` and give what it printed."""
    command = Path(sys.executable).with_name("edgemeta")
    folder = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        description = [str(command), *map(str, arguments)]
        return subprocess.run(description, capture_output=True, text=True, cwd=folder, timeout=280)

    return run


@pytest.fixture(scope="session")
def edgemeta_json(edgemeta: Command) -> Callable[..., Any]:
    """Run a verb that must succeed with --json and give the object."""

    def run(*arguments: object) -> Any:
        result = edgemeta(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return json.loads(result.stdout)

    return run


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 images, labelled by the reference but for the last 10: the shipped model is right on 75 %."""
    model = load(find(SHIPPED))
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)
    x = coarse.repeat(8, axis=1).repeat(8, axis=2)
    batch = np.concatenate([preprocess(image[..., ::-1], model.input, model.preprocessing)[None] for image in x])
    y = logits_of(reference.run(model, batch)).argmax(axis=1)
    y[30:] = (y[30:] + 1) % 10
    path = tmp_path_factory.mktemp("data") / "labelled.npz"
    np.savez(path, x=x, y=y.astype(np.uint8))
    return path


@pytest.fixture(scope="session")
def one_sentence() -> Callable[..., None]:
    """Check that a user's error came out as one line that names what it should."""

    def check(result: "subprocess.CompletedProcess[str]", *parts: str, code: int = 1) -> None:
        assert result.returncode == code, result.stderr
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.stderr.startswith("edgemeta: ")
        assert len(result.stderr.splitlines()) == 1, result.stderr
        for part in parts:
            assert part in result.stderr

    return check
