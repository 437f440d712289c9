"""Names of one's own for detected objects: a classification that was taught for a label looks at its objects."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import Problem
from edgemeta.daemon.inference.loaded_model import LoadedModel, load_model
from edgemeta.daemon.inference.model_file import read_verified
from edgemeta.daemon.messages.records import Fields
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle
from edgemeta.model.signature import SignatureError
from edgemeta.model.tasks import Classification, Detection, task_name
from edgemeta.plugins.api import Backend, BackendError, OptionError
from edgemeta.tasks.classification import logits_of, unknown
from edgemeta.tasks.detection.crop import CROP_SIDE, object_crop

MOST_NAMED = 8
"""Objects of a frame that are named, the best ones: each costs a run of its model."""
_EXPECTED = "a classification, such as `edgemeta teach --of` makes"


class ObjectNames:
    """Names the objects of frames. models: by label of messages; several labels may share one."""

    def __init__(self, models: Mapping[str, LoadedModel]) -> None:
        self._models = models
        self._inputs = {
            id(loaded): loaded.open_frames((CROP_SIDE, CROP_SIDE, 3), [_WHOLE]) for loaded in models.values()
        }

    def name(self, objects: Sequence[Fields], pixels: NDArray[np.uint8]) -> None:
        """Give the best objects of a picture [H, W, 3] or [H, W] their `name`, where the rule of rejection knows one.

        Raises BackendError.
        """
        mine = [each for each in objects if each["label"] in self._models][:MOST_NAMED]
        for each in mine:
            loaded = self._models[each["label"]]
            crop = object_crop(pixels, each["box"])
            if crop.ndim == 2:
                crop = np.repeat(crop[..., np.newaxis], 3, axis=2)
            (outputs,) = loaded.run_frames([(self._inputs[id(loaded)], crop)]).outputs
            task = loaded.model.task
            assert isinstance(task, Classification)
            if not unknown(task, outputs)[0]:
                each["name"] = task.labels[int(logits_of(outputs)[0].argmax())]


_WHOLE = Rectangle(0, 0, CROP_SIDE, CROP_SIDE)


def load_names(
    config: Config, models: Mapping[str, Model], backend: Backend, problems: list[Problem]
) -> dict[str, LoadedModel]:
    """Load the models of `object_names`, by label; models: of the cameras. Adds to the problems what cannot be used."""
    known = {
        config.label_map.get(label, label)
        for model in models.values()
        if isinstance(model.task, Detection)
        for label in model.labels
    }
    loaded: dict[str, LoadedModel] = {}
    by_address: dict[str, LoadedModel] = {}
    for label, address in config.object_names.items():
        if label not in known:
            expected = f"one of {', '.join(sorted(known))}"[:200] if known else "a camera whose model is a detection"
            problems.append(Problem(("object_names", label), f"the label {label!r}, which no detection has", expected))
            continue
        try:
            if address not in by_address:
                by_address[address] = _loaded(address, config, backend)
            loaded[label] = by_address[address]
        except (ModelError, SignatureError, BackendError, OptionError) as error:
            problems.append(Problem(("object_names", label), str(error), _EXPECTED))
    return loaded


def _loaded(address: str, config: Config, backend: Backend) -> LoadedModel:
    file = read_verified(address, [Path(key) for key in config.trust.public_key_files])
    if not isinstance(file.model.task, Classification):
        raise ModelError(f"{file.path}: its task is {task_name(file.model.task)}")
    options = config.backend.options
    return load_model(file.model, backend, options, config.backend.fallback, file.verify_ns)
