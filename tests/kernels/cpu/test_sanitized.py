"""The conformance table, random frames and changed plans under AddressSanitizer and UndefinedBehaviorSanitizer."""

from pathlib import Path

import pytest

from tests.sanitized import run_sanitized

TABLE = """
from contextlib import closing

import numpy as np

from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.model import reference
from edgemeta.model.graph import Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import preprocess
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES

isas = supported_isas()
backend = choose("cpu")
for case in CASES:
    expected = [(batch, reference.run(case.model, batch)[0]) for _, batch in case.batches()]
    for isa in isas:
        for threads in (1, 2):
            with closing(backend.compile(case.model, {"isa": isa, "threads": threads})) as session:
                for batch, logits in expected:
                    assert (session.run(batch)[0] == logits).all(), case.name

rng = np.random.default_rng(0)
plain = (np.arange(256) - 128).astype(np.int8)[np.newaxis]
for i in range(400):
    height, width, *size = map(int, rng.integers(1, 90, 4))
    frame = rng.integers(0, 256, (height, width, 3)[: 2 + i % 2]).astype(np.uint8)
    colour = ("rgb", "bgr", "gray", "r", "ya", "bgra", "yrgb")[i % 7]
    target = TensorType((*size, len(channels_of(colour))))
    table = plain if i % 3 else rng.integers(-128, 128, (target.shape[2], 256)).astype(np.int8)
    preprocessing = Preprocessing(("center", "full", "letterbox")[i % 5 % 3], colour, table)
    for isa in isas:
        tensor = np.zeros(target.shape, np.int8)
        Resizer(frame.shape, target, preprocessing, isa).run(frame, tensor)
        assert (tensor == preprocess(frame, target, preprocessing)).all(), (i, isa)
print("clean")
"""
CHANGED_PLANS = "from tests.kernels.cpu.changed_plans import main; main(0, 6000)"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_no_access_out_of_bounds_and_no_undefined_behaviour(repository: Path, tmp_path: Path) -> None:
    assert run_sanitized(repository, tmp_path, "cpu", TABLE) == "clean"
    refused, run = map(int, run_sanitized(repository, tmp_path, "cpu", CHANGED_PLANS).split())
    assert refused > 1000
    assert run > 300
