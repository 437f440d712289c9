"""The command as a user runs it, away from the checkout, but in this process."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.cli.main import main
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.preprocess import preprocess
from edgemeta.model.zoo import find
from edgemeta.tasks.classification import logits_of

SHIPPED = "resnet8-cifar10"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def edgemeta(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Run `edgemeta ARGUMENTS` in this process and give what it printed: most of a short process is its imports."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        words, code = ["edgemeta", *map(str, arguments)], 0
        with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patched.chdir(elsewhere)
            patched.setattr(sys, "argv", words)
            with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
                try:
                    main()
                except SystemExit as ended:
                    code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())

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
