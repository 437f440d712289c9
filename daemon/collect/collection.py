"""What the service offers to collect and teach, put together from its config."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgemeta.daemon.collect.collector import Collector
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.collect.teacher import Teacher
from edgemeta.daemon.config.camera import RegionConfig
from edgemeta.daemon.config.collect import CollectConfig, TeachConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder
from edgemeta.daemon.runtime.clock import Clock


@dataclass(frozen=True)
class ModelUse:
    """What came of using a taught model. line: what the config needs so that it stays in use."""

    camera: str
    state: Literal["running", "done", "failed"]
    file: Path
    message: str
    line: str


def _no_use(_camera: str, _file: Path) -> None:
    raise CollectError("this service changes no models")


@dataclass
class CollectionService:
    """Collector and teacher of a service. use: requests that a camera uses a model file, and keeps `last_use`."""

    device: str
    folder: Path
    collector: Collector
    teacher: Teacher
    limits: Callable[[], CollectConfig]
    use: Callable[[str, Path], None] = _no_use
    last_use: ModelUse | None = None


def unavailable_because(config: Config) -> str | None:
    """Return why the live page offers no collecting; None if it does."""
    if not config.web.has_token:
        return "Collecting pictures and teaching need an access token: set web.token_file in the config."
    if not config.web.show_frames:
        return "Collecting pictures is not offered while web.show_frames is false."
    return None


def collection_folder(config: Config) -> Path:
    """Return the folder of a config's collected pictures."""
    if config.collect.folder is not None:
        return Path(config.collect.folder)
    return data_folder(config.data_folder) / f"collected-{config.device}"


def taught_folder(config: Config) -> Path:
    """Return the folder of the models that were taught on the live page."""
    return data_folder(config.data_folder) / f"taught-{config.device}"


def picture_folders(config: Config) -> dict[str, PictureFolder]:
    """Return the folder of each camera's pictures."""
    folder = collection_folder(config)
    return {name: PictureFolder(folder / name, region_of(camera.region)) for name, camera in config.cameras.items()}


def region_of(region: RegionConfig) -> tuple[float, float, float, float]:
    """Return a region as left, top, width and height."""
    return region.left, region.top, region.width, region.height


def make_collection(
    config: Config,
    running: Callable[[], Config],
    clock: Clock,
    on_fatal: Callable[[BaseException], None],
) -> CollectionService:
    """Create collector and teacher of a service, not started. running: the config with keys applied since the start."""

    def limits() -> CollectConfig:
        return running().collect

    def teach_limits() -> TeachConfig:
        return running().teach

    def models() -> Collection[str]:
        return {running().model_of(camera) for camera in running().cameras}

    folders = picture_folders(config)
    return CollectionService(
        config.device,
        collection_folder(config),
        Collector(folders, limits, clock, on_fatal),
        Teacher(folders, taught_folder(config), teach_limits, models, on_fatal),
        limits,
    )
