"""`edgemeta run` and `edgemeta check`: the service, and whether its config is right."""

import faulthandler
import json
import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.config.source_address import without_password
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.messages.channels import MODEL_COMMAND, RELOAD_COMMAND
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.runtime.log_setup import STDERR, set_up, tell_repeats
from edgemeta.daemon.runtime.sd_notify import Notifier
from edgemeta.daemon.runtime.signals import RELOAD, Signals
from edgemeta.daemon.runtime.threads import leave
from edgemeta.daemon.service.change_queue import ChangeQueue
from edgemeta.daemon.service.commands import Commands
from edgemeta.daemon.service.plan import Plan, prepare, prepare_start
from edgemeta.daemon.service.service import Service
from edgemeta.daemon.service.watchdog import Watchdog
from edgemeta.model.address import Address
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.zoo import find

log = logging.getLogger(__name__)

ENDS_WITHIN = 1.5
"""Seconds from a signal until what hangs is left behind; Python's own end then fits into the 2 s that are promised."""

READERS_END_WITHIN = 0.5
"""Seconds of them for readers that cameras have abandoned: a call into a driver or decoder may yet return."""

CHANGES_END_WITHIN = 0.1
"""Seconds of them for a change in flight: one that hangs in a compiler or driver is left behind."""

config_file = click.argument("file", type=click.Path(path_type=Path))


@click.command(short_help="Run the service that a config describes.")
@config_file
def run(file: Path) -> None:
    """Run the service that the config FILE describes, until SIGTERM or SIGINT; SIGHUP reads FILE again.

    Exit codes: 0 stopped by a signal, 1 a fault, 78 a wrong config.

    \b
    Examples:
      edgemeta run configs/default.yaml
    """
    faulthandler.enable(STDERR)  # a watchdog's SIGABRT then shows where every thread hangs
    notifier = Notifier.from_environment(os.environ)
    with Signals() as signals:
        set_up("info")
        plan = prepare_start(file)
        set_up(plan.config.log.level, plan.config.log.format)
        faults: list[BaseException] = []

        def on_fatal(error: BaseException) -> None:
            faults.append(error)
            signals.raise_()

        service = Service(plan, on_fatal)
        supervisor = Watchdog(notifier, service.health, on_fatal)
        changes = ChangeQueue(service, supervisor, on_fatal)
        config = plan.config
        commands = Commands(changes, service.publisher, service.identity, config.mqtt.base, config.cameras)
        service.obey({RELOAD_COMMAND: commands.reload, MODEL_COMMAND: commands.model}, commands.refuse)
        service.start()
        supervisor.start()
        changes.start()
        while signals.wait() == RELOAD:
            changes.reload("signal")
        deadline = Deadline(ENDS_WITHIN)
        tell_repeats()
        supervisor.stop()
        changes.stop(CHANGES_END_WITHIN)
        service.stop(deadline)
    tell_repeats()
    if faults:
        _tell(faults[0])
    leave(code=1 if faults else 0, patience=min(READERS_END_WITHIN, deadline.left))


def _tell(fault: BaseException) -> None:
    """Say what ended the service: in its one sentence, or, where nobody foresaw it, with its traceback."""
    if isinstance(fault, EdgemetaError):
        log.critical("%s", fault)
    else:
        log.critical("a fault that nobody foresaw ended the service", exc_info=fault)


@click.command(short_help="Check a config: every mistake at once, with its line.")
@config_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def check(file: Path, as_json: bool) -> None:
    """Check the config FILE, without cameras and broker: every mistake at once, with its line.

    Of a right one it tells what would run, and each model's line as it is written to take that very file only.

    Exit codes: 0 nothing wrong, 78 something is.

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
    close_all(plan.networks.values())
    if as_json:
        click.echo(json.dumps(_summary(plan)))
        return
    click.echo(f"{file}: {_sentence(plan)}")
    for name, model in {model["address"]: (name, model) for name, model in _models(plan).items()}.values():
        click.echo(f"{_key_of(plan, name)}: {model['address']}  # {model['name']}, {model['file']}")


def _models(plan: Plan) -> dict[str, dict[str, str]]:
    """Each camera's model: its name, digest and file, and how the config names that very file."""
    models = {}
    for camera, network in plan.networks.items():
        place, digest = Address.parse(plan.config.model_of(camera)).place, network.model.digest
        models[camera] = {
            **network.identity.model_dump(),
            "file": str(find(place)),
            "address": str(Address(place, digest)),
        }
    return models


def _key_of(plan: Plan, camera: str) -> str:
    """Return the key of the config that names a camera's model."""
    return "model" if plan.config.cameras[camera].model is None else f"cameras.{camera}.model"


def _summary(plan: Plan) -> dict[str, object]:
    config = plan.config
    first, *_ = plan.networks.values()
    return {
        "valid": True,
        "device": config.device,
        "model": first.identity.model_dump(),
        "models": _models(plan),
        "backend": first.backend,
        "cameras": {name: without_password(camera.source) for name, camera in config.cameras.items()},
        "broker": f"{config.mqtt.host}:{config.mqtt.port}",
    }


def _sentence(plan: Plan) -> str:
    config = plan.config
    served: dict[str, list[str]] = {}
    for name, network in plan.networks.items():
        camera = f"{name} ({without_password(config.cameras[name].source)})"
        served.setdefault(f"{network.description} on {network.backend}", []).append(camera)
    networks = " and ".join(f"{network} for {', '.join(cameras)}" for network, cameras in served.items())
    return (
        f"would run {networks}, "
        f"and publish below {config.mqtt.base}/{config.device} at {config.mqtt.host}:{config.mqtt.port}"
    )
