"""Settings of cameras that the command `set` has set: beside the config, checked against the models, kept in a file.

The config's own values stay as they are, so that a setting can be given up again.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder, make_folder
from edgemeta.daemon.config.loader import Problem
from edgemeta.daemon.inference.readers.labels import label_names
from edgemeta.daemon.messages.commands import SetCommand
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import Model
from edgemeta.model.small_file import FileError, exists, read_small_file
from edgemeta.model.tasks import Classification, Detection, task_name

log = logging.getLogger(__name__)

MOST_BYTES = 1_000_000


class CommandError(EdgemetaError):
    """A command that cannot be carried out, with the reason in one sentence."""


NAMES = tuple(name for name in SetCommand.model_fields if name not in ("camera", "transaction"))
"""What can be set."""

Settings: TypeAlias = Mapping[str, SetCommand]
"""By camera, None being what the config says; cameras of which nothing is set are left out."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    cameras: dict[Annotated[str, Field(max_length=64)], SetCommand] = {}


def names_of(settings: SetCommand) -> list[str]:
    """Return the names of what is set."""
    return [name for name in NAMES if getattr(settings, name) is not None]


def changed_settings(running: Settings, config: Config, command: SetCommand) -> Settings:
    """Return the settings after a command. Raises CommandError where it names no setting, or no camera."""
    given = command.model_fields_set & set(NAMES)
    if not given:
        raise CommandError(f"found nothing to set, expected one of {', '.join(NAMES)}")
    if command.camera is not None and command.camera not in config.cameras:
        raise CommandError(f"found camera {command.camera!r}, expected one of {', '.join(config.cameras)}")
    update = {name: getattr(command, name) for name in given}
    cameras = config.cameras if command.camera is None else (command.camera,)
    changed = {name: running.get(name, SetCommand()).model_copy(update=update) for name in cameras}
    return {name: each for name, each in {**running, **changed}.items() if names_of(each)}


def fitting(
    settings: Settings, config: Config, models: Mapping[str, Model]
) -> tuple[dict[str, SetCommand], list[Problem]]:
    """Return the settings of cameras that they fit, and what is wrong with the others. models: by camera."""
    known = {name: each for name, each in settings.items() if name in config.cameras}
    wrong = {name: list(_misfits(name, each, models[name], config)) for name, each in known.items() if name in models}
    misfits = [problem for problems in wrong.values() for problem in problems]
    return {name: each for name, each in known.items() if not wrong.get(name)}, misfits


def _misfits(name: str, settings: SetCommand, model: Model, config: Config) -> Iterator[Problem]:
    where, has = ("cameras", name), f"for {model.name}, whose task is {task_name(model.task)}"
    if settings.score is not None and not isinstance(model.task, Classification | Detection):
        yield Problem((*where, "score"), f"a score {has}", "a classification or detection")
    if settings.labels is None:
        return
    if not isinstance(model.task, Detection):
        yield Problem((*where, "labels"), f"labels {has}", "a detection")
        return
    labels = label_names(model, config.label_map)
    for label in settings.labels:
        if label not in labels:
            found = f"the label {label!r}, which {model.name} does not have"
            yield Problem((*where, "labels"), found, f"labels such as {', '.join(labels[:10])}")
            return


def with_settings(config: Config, settings: Settings, models: Mapping[str, Model]) -> Config:
    """Return a config with settings that fit it. models: by camera."""
    cameras = {
        name: _with_settings(config, camera, settings[name], models.get(name)) if name in settings else camera
        for name, camera in config.cameras.items()
    }
    return config.model_copy(update={"cameras": cameras})


def _with_settings(config: Config, camera: CameraConfig, settings: SetCommand, model: Model | None) -> CameraConfig:
    update: dict[str, Any] = {}
    if settings.enabled is not None:
        update["enabled"] = settings.enabled
    if settings.max_fps is not None:
        update["max_fps"] = settings.max_fps or None
    objects, state = camera.objects or config.objects, camera.state or config.state
    if settings.labels is not None:
        objects = objects.model_copy(update={"labels": list(settings.labels)})
    if settings.score is not None and model is not None:
        if isinstance(model.task, Detection):
            labels = label_names(model, config.label_map)
            objects = objects.model_copy(update={"scores": dict.fromkeys(labels, settings.score)})
        else:
            scores = {"enter_score": settings.score, "leave_score": min(settings.score, state.leave_score)}
            update["state"] = state.model_copy(update=scores)
    if objects is not (camera.objects or config.objects):
        update["objects"] = objects
    return camera.model_copy(update=update)


def score_of(config: Config, camera: str, model: Model) -> float | None:
    """Return the least score that counts, as the command sets it; None where labels differ, and for other tasks."""
    own = config.cameras[camera]
    if isinstance(model.task, Classification):
        return (own.state or config.state).enter_score
    if not isinstance(model.task, Detection):
        return None
    scores = (own.objects or config.objects).scores
    found = {scores.get(label, model.task.score_threshold) for label in label_names(model, config.label_map)}
    return found.pop() if len(found) == 1 else None


def _file_of(config: Config) -> Path:
    return data_folder(config.data_folder) / f"settings-{config.device}.json"


def read_settings(config: Config) -> Settings:
    """Return what is kept for a device; nothing, with a warning, where the file cannot be used."""
    file = _file_of(config)
    try:
        if not exists(file):
            return {}
        return _File.model_validate_json(read_small_file(file, MOST_BYTES)).cameras
    except (FileError, ValidationError) as error:
        reason = error.reason if isinstance(error, FileError) else "is damaged"
        log.warning("settings that were set by command are not known: %s %s", file, reason)
        return {}


def write_settings(config: Config, settings: Settings) -> None:
    """Keep the settings of a device. Raises OSError."""
    file = _file_of(config)
    make_folder(file.parent)
    content = _File(cameras=dict(settings)).model_dump_json(indent=1, exclude_none=True)
    write_atomically(file, content.encode(), mode=0o600)
