"""Pictures of objects to teach from: of each picture the part in which a detection finds its best object of a label."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import placement
from edgemeta.model.tasks import Detection, task_name
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.tasks.detection.crop import object_crop
from edgemeta.tasks.detection.objects import Detector
from edgemeta.tasks.tiles import in_frame
from edgemeta.toolchain.errors import TeachError
from edgemeta.toolchain.quantize.run import integer_session

_SHAPES = 16


def object_finder(detector: Model, label: str) -> Callable[[NDArray[np.uint8]], NDArray[np.uint8] | None]:
    """Takes a frame [H, W, 3] to the `object_crop` of its best object of the label; to None without one.

    Raises TeachError for a model that is no detection or has no such label.
    """
    if not isinstance(detector.task, Detection):
        raise TeachError(f"{detector.name}: its task is {task_name(detector.task)}, expected a detection")
    if label not in detector.labels:
        raise TeachError(f"{detector.name}: has no label {label!r}, expected one of {', '.join(detector.labels)}"[:300])
    session, decode = integer_session(detector), Detector(detector, outlines=False)
    prepared: Callable[[tuple[int, ...]], Preprocessor] = lru_cache(_SHAPES)(
        lambda shape: make_preprocessor(detector, shape)
    )

    def crop(frame: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        outputs = session.run(prepared(frame.shape)(frame))
        where = placement(detector.preprocessing, detector.input, frame.shape[:2])
        found = in_frame(decode.objects(tuple(each[0] for each in outputs)), where)
        return next((object_crop(frame, each.box) for each in found if each.label == label), None)

    return crop
