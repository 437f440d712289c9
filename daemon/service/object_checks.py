"""Whether the config's objects, zones and lines fit the models of the cameras."""

import difflib
from collections.abc import Iterator, Mapping

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import KeyPath, Problem
from edgemeta.daemon.config.objects import ObjectsConfig
from edgemeta.daemon.inference.readers.labels import label_names
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection, Keypoints, Raw, Segmentation, task_name


def object_problems(config: Config, models: Mapping[str, Model]) -> Iterator[Problem]:
    """Problems of `objects`, `zones` and `lines`. models: by camera. Labels are those of messages, after `label_map`.

    The service's own `objects` may name the labels of any camera's model.
    """
    known = {camera: label_names(model, config.label_map) for camera, model in models.items()}
    everywhere = tuple(dict.fromkeys(label for labels in known.values() for label in labels))
    yield from _unknown(_labels_of(config.objects, ("objects",)), everywhere, "no model has")
    for name, camera in config.cameras.items():
        if name not in models:
            continue
        own, model = ("cameras", name), models[name]
        for key, given in (("objects", camera.objects), ("zones", camera.zones), ("lines", camera.lines)):
            if given and not isinstance(model.task, Detection):
                found = f"{key} for {model.name}, whose task is {task_name(model.task)}"
                yield Problem((*own, key), found, "a model that finds objects")
        if isinstance(model.task, Segmentation | Keypoints | Raw) and camera.tiles.rows * camera.tiles.columns > 1:
            found = f"several tiles for {model.name}, whose task is {task_name(model.task)}"
            yield Problem((*own, "tiles"), found, "1 row and 1 column, as what tiles show cannot be joined")
        lacks = f"{model.name} does not have"
        if camera.objects is not None:
            yield from _unknown(_labels_of(camera.objects, (*own, "objects")), known[name], lacks)
        places = [("zones", zone, each.labels) for zone, each in camera.zones.items()]
        places += [("lines", line, each.labels) for line, each in camera.lines.items()]
        for key, place, labels in places:
            path = (*own, key, place, "labels")
            yield from _unknown(((path, label) for label in labels or ()), known[name], lacks)


def _labels_of(objects: ObjectsConfig, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    yield from (((*path, "labels"), label) for label in objects.labels or ())
    yield from (((*path, "scores", label), label) for label in objects.scores)


def _unknown(named: Iterator[tuple[KeyPath, str]], known: tuple[str, ...], lacks: str) -> Iterator[Problem]:
    for path, label in named:
        if label not in known:
            near = difflib.get_close_matches(label, known, n=1)
            expected = f"`{near[0]}`" if near else _one_of(known)
            yield Problem(path, f"the label {label!r}, which {lacks}", expected)


def _one_of(labels: tuple[str, ...]) -> str:
    shown = ", ".join(labels[:10])
    return f"one of {shown}, or {len(labels) - 10} more" if len(labels) > 10 else f"one of {shown}"
