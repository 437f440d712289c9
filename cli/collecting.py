"""`collect`: keeps frames of a camera as labelled pictures."""

import logging
import math
import sys
from pathlib import Path

import click

from edgemeta.cli.config_file import config_of
from edgemeta.cli.options import json_of, report
from edgemeta.cli.progress import progress_bar
from edgemeta.daemon.capture.sources.registry import kind_of
from edgemeta.daemon.collect.direct import Collected, OnProgress, collect_directly
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import checked_label
from edgemeta.daemon.collect.running_service import RunningService
from edgemeta.daemon.config.config import Config

ASKS = "`edgemeta collect` asks the running service where the config has `web.enabled` and `web.token_file`"


@click.command(short_help="Keep frames of a camera as labelled pictures.")
@click.argument("file", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option("--camera", metavar="NAME", help="The camera.  [default: the config's only one]")
@click.option("--label", required=True, metavar="LABEL", help="What the frames show now: the name of their folder.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=86_400),
    help="How long frames are kept.  [default: until Ctrl-C]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep them in FOLDER/LABEL instead of the config's folder.",
)
@json_of("camera, label, pictures, skipped (the disk was slow), folder, ended (why it ended early, or null)")
def collect(file: Path, camera: str | None, label: str, seconds: float | None, out: Path | None, as_json: bool) -> None:
    """Keep frames of a camera of CONFIG as pictures under a label, for `edgemeta teach`.

    The frames are cut to the camera's region, as the network sees them. A service that runs with this config owns the
    camera, so it is asked to keep them. Limits: the config's section `collect`.

    \b
    Examples:
      edgemeta collect config.yaml --label "gate open" --seconds 10
      edgemeta collect config.yaml --camera yard --label empty --seconds 10 --out pictures
    """
    logging.getLogger("edgemeta").addHandler(logging.NullHandler())  # the last status is the command's own error
    config = config_of(file)
    name = _camera(config, camera)
    checked_label(label)
    with progress_bar(f"collecting {label}", wanted=not as_json) as update:

        def show(_kept: int, lasting: float) -> None:
            if seconds is not None:
                update(round(10 * lasting), round(10 * seconds))

        collected = _collect(config, name, label, math.inf if seconds is None else seconds, out, show)
    values = {
        "camera": name,
        "label": collected.label,
        "pictures": collected.kept,
        "skipped": collected.skipped,
        "folder": str(collected.folder),
        "ended": collected.ended,
    }
    plural = "picture" if collected.kept == 1 else "pictures"
    report(as_json, values, [f"{collected.folder / collected.label}: {collected.kept:,} {plural} of camera {name}"])
    if collected.ended not in (None, "interrupted"):
        click.echo(f"edgemeta: ended early: {collected.ended}", err=True)
        sys.exit(0 if collected.clip_ended else 1)


def _camera(config: Config, camera: str | None) -> str:
    if camera is None and len(config.cameras) == 1:
        return next(iter(config.cameras))
    if camera not in config.cameras:
        found = "no --camera" if camera is None else f"camera {camera!r}"
        raise CollectError(f"found {found}, expected one of {', '.join(config.cameras)}")
    return camera


def _collect(config: Config, camera: str, label: str, seconds: float, out: Path | None, show: OnProgress) -> Collected:
    """Have the running service collect; without one, or into another folder, open the camera. Raises CollectError."""
    service = RunningService.find(config)
    if isinstance(service, RunningService) and out is None:
        return service.collect(camera, label, seconds, show)
    try:
        return collect_directly(config, camera, label, seconds, out, show)
    except CollectError as error:
        if isinstance(service, RunningService):
            raise CollectError(
                f"{error} (the service runs and may own the camera: without --out it collects)"
            ) from error
        if isinstance(service, str):
            raise CollectError(f"{error} (a service runs here, but cannot be asked: {service})") from error
        if kind_of(config.cameras[camera].source) in ("v4l2", "csi"):
            raise CollectError(f"{error} (if the service has it: {ASKS})") from error
        raise
