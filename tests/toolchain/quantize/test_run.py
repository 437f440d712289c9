"""The backend that `quantize` measures with is compared with the reference: wrong integers end it with one sentence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins import registry
from edgemeta.plugins.api import BackendError, Batch, Outputs, Session
from edgemeta.toolchain.quantize import run
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.binary import BinaryScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.paper import PaperScheme
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.run import COMPARED, integer_session
from tests.conformance.cases import CASES


class _OffByOne:
    """The cpu backend, wrong in one integer of the last picture of every batch from call `first` on."""

    def __init__(self, first: int = 0) -> None:
        self._runs_left = first

    name = "cpu"

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> None:
        """Every layer."""

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        session = registry.choose("cpu").compile(model, options)
        right = session.run

        def wrong(batch: Batch) -> Outputs:
            outputs = tuple(output.copy() for output in right(batch))
            self._runs_left -= 1
            if self._runs_left < 0:
                outputs[0][-1, 0, 0, -1] ^= 1
            return outputs

        session.run = wrong  # type: ignore[method-assign]
        return session


@pytest.mark.parametrize(
    "scheme",
    [lambda _: PaperScheme(), lambda data: AutoScheme(Calibration(data)), lambda data: BinaryScheme(Calibration(data))],
    ids=["paper", "auto", "binary"],
)
def test_quantize_refuses_a_backend_with_wrong_integers(
    scheme: Any, tmp_path: Path, every_layer: FloatModel, pixels: Any, classes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "choose", lambda _: _OffByOne())
    source, data, out = (tmp_path / name for name in ("float.safetensors", "data.npz", "int.safetensors"))
    save_float_model(every_layer, source)
    np.savez(data, x=pixels, y=classes)
    with pytest.raises(BackendError, match=r"^backend cpu differs from the reference in \d+ of \d+ integers of .*$"):
        quantize(source, out, scheme(data))
    assert not out.exists()


@pytest.mark.parametrize("wrong_from", range(COMPARED + 1))
def test_the_first_pictures_of_a_session_are_compared(wrong_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CASES[0].model
    monkeypatch.setattr(run, "choose", lambda _: _OffByOne(wrong_from))
    session = integer_session(model)
    batch = np.zeros((1, *model.input.shape), model.input.dtype)
    for _ in range(wrong_from):
        session.run(batch)
    if wrong_from == COMPARED:
        session.run(batch)
    else:
        with pytest.raises(BackendError, match=r"of output '.*' of a picture, so network"):
            session.run(batch)
