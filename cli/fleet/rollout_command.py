"""`edgemeta fleet rollout` and `undo`."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from pydantic import ValidationError

from edgemeta.cli.broker import broker_of, listen
from edgemeta.cli.completion import model_names
from edgemeta.cli.config_file import config_of
from edgemeta.cli.fleet.devices import Device, Fleet
from edgemeta.cli.fleet.journal import Journal, JournalFile
from edgemeta.cli.fleet.rollout import carry_out, off
from edgemeta.cli.fleet.session import Session
from edgemeta.cli.fleet.stages import assign, chosen
from edgemeta.cli.options import json_of, remark, report
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.rollouts import MODEL_NAME, WantedModel
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.model.address import Address
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.file import parse
from edgemeta.model.signature import LENGTH, signature_of
from edgemeta.model.small_file import exists, read_small_file

F = TypeVar("F", bound=Callable[..., Any])
LISTENS = 3.0
"""Seconds in which retained messages are awaited before a rollout is planned."""


def at_broker(command: F) -> F:
    """Add --config, --broker and --base to a command, which gets `mqtt` and `base`."""

    @wraps(command)
    def connected(config: Path | None, broker: str | None, base: str | None, **given: Any) -> Any:
        if (broker is None) == (config is None):
            raise click.UsageError("expected one of --config, --broker")
        mqtt = broker_of(broker) if broker is not None else config_of(cast("Path", config)).mqtt
        return command(mqtt=mqtt, base=mqtt.base_topic if base is None else base.strip("/"), **given)

    of_config = click.option(
        "--config", type=click.Path(path_type=Path), metavar="FILE", help="A device's config: its `mqtt` section."
    )
    of_broker = click.option(
        "--broker", metavar="HOST[:PORT]", help="A broker without encryption and login, instead of a config."
    )
    of_base = click.option(
        "--base", metavar="TOPIC", help="`mqtt.base_topic` of the devices; with --broker `edgemeta` without it."
    )
    return cast("F", of_config(of_broker(of_base(connected))))


@click.command(short_help="Give devices a model, stage by stage, and halt where it fails.")
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@click.option("--to", "pattern", default="*", show_default=True, metavar="PATTERN", help="Names of devices: `yard-*`.")
@click.option(
    "--stages", default="1,10%,100%", show_default=True, help="Devices after each stage: numbers, or shares of all."
)
@click.option("--url", metavar="ADDRESS", help="Where devices get the file, http or https; without it by the broker.")
@click.option(
    "--most-failed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Failed devices of a stage that do not halt the rollout.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 86400),
    default=600.0,
    show_default=True,
    help="Seconds after which a device of a stage without a result has failed.",
)
@click.option(
    "--settle",
    type=click.FloatRange(0, 86400),
    default=5.0,
    show_default=True,
    help="Seconds to wait after the last device of a stage before the next stage.",
)
@click.option("--dry-run", is_flag=True, help="Say which devices each stage would reach, and order nothing.")
@at_broker
@json_of("id, model, stages, state, reason, off, devices; with --dry-run stages, refuse")
def rollout(
    model_name: str,
    pattern: str,
    stages: str,
    url: str | None,
    most_failed: int,
    timeout: float,
    settle: float,
    dry_run: bool,
    mqtt: MqttConfig,
    base: str,
    as_json: bool,
) -> None:
    """Give the devices that match a pattern the model MODEL, a shipped name or a file, in stages.

    Each device fetches and verifies it and tries it as in every swap; then it is used instead of the config's `model`,
    also after a restart. A stage ends when all of its devices that are on have the model. If one fails, nothing more is
    ordered and all devices of the rollout go back to what they had. Devices that are off follow when they return.

    The same command goes on with a rollout that was ended. Devices need `swap.rollouts: install`; the user needs the
    right to write `<base>/+/cmd/rollout` and `<base>/.models/#`. The exit status is 1 where the rollout was undone.

    \b
    Examples:
      edgemeta fleet rollout better.safetensors --to 'yard-*' --broker 192.168.1.10
      edgemeta fleet rollout better.safetensors --stages 1,5,50%,100% --url https://files.lan/better.safetensors \\
        --config /etc/edgemeta/operator.yaml
      edgemeta fleet rollout better.safetensors --dry-run --broker 192.168.1.10
    """
    place, content = Address.parse(model_name).read()
    model, file = _wanted(place, content, url), JournalFile(mqtt, base)
    with file.locked():
        known, fleet = file.read(), Fleet(base)
        if known is not None and known.state == "undoing":
            raise EdgemetaError(f"the rollout {known.id} is being undone: edgemeta fleet undo goes on with that")
        if known is not None and known.state == "going" and known.model.sha256 != model.sha256:
            raise EdgemetaError(
                f"the rollout {known.id} of {known.file} has not ended: go on with that file, or: edgemeta fleet undo"
            )
        if known is not None and known.state == "going" and not dry_run:
            remark(f"going on with the rollout {known.id}: stage {known.stage + 1} of {len(known.stages)}")
            journal = known
        else:
            listen(mqtt, "fleet", [*fleet.filters, fleet.orders], _taker(fleet), LISTENS)
            takes, refuse = chosen(list(fleet.devices.values()), pattern)
            for line in _refusing(refuse):
                remark(line)
            if not takes:
                raise EdgemetaError(f"--to {pattern}: no device takes orders, which needs `swap.rollouts: install`")
            journal = Journal(
                id=f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{model.sha256[:8]}",
                model=model,
                file=str(place),
                stages=assign(stages, takes),
                before={each.name: each.order for each in takes},
                most_failed=most_failed,
                timeout=timeout,
                settle=settle,
            )
        if dry_run:
            report(as_json, {"stages": journal.stages, "refuse": [each.name for each in refuse]}, _plan(journal))
            return
        file.write(journal, content)
        _run(journal, file, mqtt, fleet, as_json)


@click.command(short_help="Give the devices of the last rollout what they had before.")
@at_broker
@json_of("id, model, stages, state, reason, off, devices")
def undo(mqtt: MqttConfig, base: str, as_json: bool) -> None:
    """End the last rollout of this broker, whether it has ended or not: its devices go back to what they had before.

    Devices keep the file of the model before, so this needs no download. It is to run where `rollout` ran, as it reads
    the journal of that, ~/.local/state/edgemeta/fleet.

    \b
    Examples:
      edgemeta fleet undo --broker 192.168.1.10
    """
    file = JournalFile(mqtt, base)
    with file.locked():
        journal = file.read()
        if journal is None:
            raise EdgemetaError(f"{file.path}: there is no rollout to undo")
        if journal.state == "undone":
            raise EdgemetaError(f"{file.path}: the rollout {journal.id} is undone already")
        if journal.state != "undoing":
            journal = journal.model_copy(update={"state": "undoing", "reason": "undone by command"})
        _run(journal, file, mqtt, Fleet(base), as_json)


def _run(journal: Journal, file: JournalFile, mqtt: MqttConfig, fleet: Fleet, as_json: bool) -> None:
    session = Session(mqtt, [*fleet.filters, fleet.orders], _taker(fleet))
    try:
        journal = carry_out(journal, file, session, fleet, lambda line: click.echo(line, err=as_json))
    finally:
        session.close()
    waiting = off(journal, fleet)
    values = journal.model_dump(mode="json", include={"id", "model", "stages", "stage", "state", "reason"})
    devices = {each: fleet.devices[each].as_json() for each in journal.ordered if each in fleet.devices}
    report(as_json, values | {"off": waiting, "devices": devices}, _end(journal, waiting))
    if journal.state == "undone" and journal.reason != "undone by command":
        raise SystemExit(1)


def _taker(fleet: Fleet) -> Callable[[Incoming], None]:
    return lambda message: fleet.take(message.topic, message.payload, retained=message.retained)


def _wanted(file: Path, content: bytes, url: str | None) -> WantedModel:
    """What is ordered. Raises EdgemetaError where the file is no model, or its name no name of a file."""
    name = parse(content, file).name
    if not re.fullmatch(MODEL_NAME, name):
        raise EdgemetaError(f"{file}: found the name {name!r}, expected letters, digits, '.', '_' and '-'")
    signed = signature_of(file)
    signature = read_small_file(signed, LENGTH).hex() if exists(signed) else None
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        return WantedModel(name=name, sha256=sha256, size=len(content), address=url, signature=signature)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        if wrong["loc"] == ("address",):
            raise EdgemetaError(f"--url {url}: expected an address that begins with http:// or https://") from None
        raise EdgemetaError(f"{signed}: expected a signature of {LENGTH} bytes") from None


def _refusing(devices: Sequence[Device]) -> Iterator[str]:
    if devices:
        names = ", ".join(sorted(each.name for each in devices)[:10])
        yield f"{len(devices)} devices that match take no orders (`swap.rollouts`), such as {names}"


def _plan(journal: Journal) -> Iterator[str]:
    size = f"{journal.model.size / 1e6:.1f} MB"
    yield f"{journal.model.name} {journal.model.sha256[:8]}, {size}, {journal.model.address or 'by the broker'}"
    for number, stage in enumerate(journal.stages, 1):
        yield f"stage {number}: {len(stage)} devices: {', '.join(stage)}"


def _end(journal: Journal, waiting: Sequence[str]) -> Iterator[str]:
    what = {"done": f"have {journal.model.name}", "undone": "have what they had before"}[journal.state]
    yield f"{len(journal.ordered) - len(waiting)} devices {what}"
    if waiting:
        yield f"{len(waiting)} follow when they return: {', '.join(waiting)}"
    if journal.state == "undone":
        yield f"undone: {journal.reason}"
