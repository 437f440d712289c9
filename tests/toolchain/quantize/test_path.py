"""The way of a float file through scheme `paper` and `auto`: how often a reader who follows it changes the module."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.paper import PaperScheme
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.scheme import Scheme

ROOM = "edgemeta.toolchain.quantize."


class Stays:
    """Modules of this room in the order in which their functions are called for the first time, each function once.

    Not counted is what nobody goes to read: generated methods of dataclasses, and what stands inside of a function that
    is being read (comprehensions and lambdas, which Python 3.12 partly calls no more).
    """

    def __init__(self) -> None:
        self.stays: list[str] = []
        self._known: set[object] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """As a function of `sys.setprofile`."""
        module = str(frame.f_globals.get("__name__"))
        is_read = "<" not in frame.f_code.co_filename + frame.f_code.co_name
        if event == "call" and is_read and module.startswith(ROOM) and frame.f_code not in self._known:
            self._known.add(frame.f_code)
            if self.stays[-1:] != [module]:
                self.stays.append(module)


@pytest.mark.parametrize(("name", "modules", "returns"), [("paper", 12, 12), ("auto", 21, 67)])
def test_the_path_changes_the_module_seldom(
    every_layer: FloatModel, pixels: Any, tmp_path: Path, name: str, modules: int, returns: int
) -> None:
    """A return is a stay in a module that was left before; the figures are what is reached, and may fall."""
    save_float_model(every_layer, tmp_path / "float.safetensors")
    np.savez(tmp_path / "data.npz", x=pixels, y=np.zeros(20, np.uint8))
    scheme: Scheme = PaperScheme() if name == "paper" else AutoScheme(Calibration(tmp_path / "data.npz"))
    path = Stays()
    sys.setprofile(path)
    try:
        quantize(tmp_path / "float.safetensors", tmp_path / "out.safetensors", scheme)
    finally:
        sys.setprofile(None)
    entered = set(path.stays)
    assert len(entered) <= modules
    assert len(path.stays) - len(entered) <= returns
