"""`edgemeta run` and `edgemeta check`: run the service; validate its config."""

import faulthandler
import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.cli.options import json_of, remark
from edgemeta.daemon.capture.sources.registry import kind_of
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigError, ConfigFile, Mistake, Problem
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.runtime.log_setup import STDERR
from edgemeta.daemon.service.app import run_service
from edgemeta.daemon.service.plan import Plan, prepare
from edgemeta.model.address import Address
from edgemeta.model.small_file import exists
from edgemeta.model.zoo import find

config_file = click.argument("file", type=click.Path(path_type=Path))


@click.command(short_help="Run the service that a config describes.")
@config_file
def run(file: Path) -> None:
    """Run the service that the config FILE describes, until SIGTERM or SIGINT; SIGHUP reads FILE again.

    Exit codes: 0 stopped by a signal, 1 stopped by an error, 78 invalid config.

    \b
    Examples:
      edgemeta run configs/default.yaml
    """
    faulthandler.enable(STDERR)  # a watchdog's SIGABRT then shows where every thread hangs
    run_service(file)


@click.command(short_help="Check a config: all mistakes at once, with their lines.")
@config_file
@json_of("valid, device, backend, cameras, broker, models (each: name, sha256, file, address), warnings; or mistakes")
def check(file: Path, as_json: bool) -> None:
    """Check the config FILE without cameras and broker: all mistakes at once, with their lines.

    For a valid config it prints what would run, and for each model the line that pins exactly this file by its digest.
    A file of a camera that does not exist is a warning: the service starts, and opens it once it is there.

    Exit codes: 0 valid, 78 invalid.

    \b
    Examples:
      edgemeta check configs/default.yaml
      edgemeta check --json /etc/edgemeta/config.yaml
    """
    try:
        plan = prepare(file)
    except ConfigError as error:
        if not as_json:
            raise
        click.echo(json.dumps({"valid": False, "mistakes": [asdict(mistake) for mistake in error.mistakes]}))
        sys.exit(error.exit_code)
    close_all([*plan.loaded_models.values(), *plan.names.values()])
    warnings = _missing_files(file, plan)
    if as_json:
        click.echo(json.dumps(_summary(plan) | {"warnings": [asdict(warning) for warning in warnings]}))
        return
    for warning in warnings:
        remark(f"warning: {warning}")
    click.echo(f"{file}: {_sentence(plan)}")
    for name, model in {model["address"]: (name, model) for name, model in _models(plan).items()}.values():
        click.echo(f"{_key_of(plan, name)}: {model['address']}  # {model['name']}, {model['file']}")


def _missing_files(file: Path, plan: Plan) -> tuple[Mistake, ...]:
    """Videos, images and folders of the cameras that do not exist."""
    problems = [
        Problem(("cameras", name, "source"), f"{path}, which does not exist", "a file or folder for the camera to open")
        for name, camera in plan.config.cameras.items()
        if kind_of(camera.address) in ("image", "video") and not exists(path := camera.address.path)
    ]
    config = ConfigFile(file, Config)
    config.validate()
    return config.error(problems).mistakes


def _models(plan: Plan) -> dict[str, dict[str, str]]:
    """Each camera's model: its name, digest and file, and how the config names that very file."""
    models = {}
    for camera, loaded in plan.loaded_models.items():
        place, digest = Address.parse(plan.config.model_of(camera)).place, loaded.model.digest
        models[camera] = {
            **loaded.identity.model_dump(),
            "file": str(find(place)),
            "address": str(Address(place, digest)),
        }
    return models


def _key_of(plan: Plan, camera: str) -> str:
    """Return the key of the config that names a camera's model."""
    return "model" if plan.config.cameras[camera].model is None else f"cameras.{camera}.model"


def _summary(plan: Plan) -> dict[str, object]:
    config = plan.config
    first, *_ = plan.loaded_models.values()
    return {
        "valid": True,
        "device": config.device,
        "model": first.identity.model_dump(),
        "models": _models(plan),
        "backend": first.backend,
        "cameras": {name: str(camera.address) for name, camera in config.cameras.items()},
        "broker": f"{config.mqtt.host}:{config.mqtt.port}",
    }


def _sentence(plan: Plan) -> str:
    config = plan.config
    served: dict[str, list[str]] = {}
    for name, loaded in plan.loaded_models.items():
        camera = f"{name} ({config.cameras[name].address})"
        served.setdefault(f"{loaded.description} on {loaded.backend}", []).append(camera)
    loaded_models = " and ".join(f"{loaded} for {', '.join(cameras)}" for loaded, cameras in served.items())
    return (
        f"would run {loaded_models}, "
        f"and publish below {config.mqtt.base_topic}/{config.device} at {config.mqtt.host}:{config.mqtt.port}"
    )
