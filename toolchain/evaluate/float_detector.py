"""The objects that a float detection finds, decoded by the code that decodes integers."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT, FloatModel, Model, Preprocessing
from edgemeta.model.layers import Clamp, TensorType
from edgemeta.model.prove_float import prove_float
from edgemeta.tasks.detection.objects import Detector, Object

_STEP = 2.0**-16
_REACH = 2.0**30


class FloatDetector:
    """The objects of a float network: its outputs are rounded to multiples of 2**-16, then decoded like integers.

    Their masks are not: they are compared by nobody. Each label is asked for by itself (`Detector`'s by_label).
    """

    def __init__(self, model: FloatModel, thresholds: Mapping[str, float] | None = None) -> None:
        """thresholds: as of `Detector`. Raises as that."""
        shapes = prove_float(model, model.name)
        kinds = {name: TensorType(shapes[name], 32, scale=_STEP) for name in model.outputs}
        outputs = Model(
            name=model.name,
            input=TensorType(model.input_shape, signed=False),
            layers=tuple(Clamp(name, INPUT, kind, kind.lo, kind.hi) for name, kind in kinds.items()),
            outputs=model.outputs,
            task=model.task,
            preprocessing=Preprocessing(model.crop, model.colour, np.arange(256, dtype=np.uint8)[np.newaxis]),
        )
        self._detector = Detector(outputs, thresholds, outlines=False, by_label=True)

    def objects(self, outputs: Sequence[NDArray[np.floating]]) -> tuple[Object, ...]:
        """Objects of one image, best first, from float outputs [1, H, W, C]."""
        rounded = [np.rint(np.clip(each[0] / _STEP, -_REACH, _REACH)).astype(np.int32) for each in outputs]
        return self._detector.objects(tuple(rounded))
