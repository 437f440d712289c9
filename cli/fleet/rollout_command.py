"""`edgemeta fleet rollout` and `undo`."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import ValidationError

from edgemeta.cli.broker import listen
from edgemeta.cli.completion import model_names
from edgemeta.cli.fleet.devices import Device, Fleet
from edgemeta.cli.fleet.journal import Journal, JournalFile
from edgemeta.cli.fleet.options import How, at_broker, in_stages
from edgemeta.cli.fleet.rollout import carry_out, off
from edgemeta.cli.fleet.session import Session
from edgemeta.cli.fleet.stages import assign, chosen
from edgemeta.cli.options import json_of, remark, report
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.swap import KEY
from edgemeta.daemon.messages.rollouts import MODEL_NAME, WantedModel
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.model.address import Address
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.file import parse
from edgemeta.model.signature import LENGTH, signature_of
from edgemeta.model.small_file import exists, read_small_file

LISTENS = 3.0
"""Seconds in which retained messages are awaited before a rollout is planned."""


@click.command(short_help="Give devices a model, stage by stage, and halt where it fails.")
@click.argument("model_name", metavar="MODEL", shell_complete=model_names)
@click.option("--url", metavar="ADDRESS", help="Where devices get the file, http or https; without it by the broker.")
@in_stages
def rollout(model_name: str, url: str | None, how: How) -> None:
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
    model = _wanted(place, content, url)
    _carry(how, Journal(id=_name(model.sha256[:8]), model=model, file=str(place)), content)


@click.command("set", short_help="Give devices config values, stage by stage; halt where one fails.")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@click.option("--unset", multiple=True, metavar="KEY", help="Take what the config file says again; may be repeated.")
@in_stages
def set_values(words: Sequence[str], unset: Sequence[str], how: How) -> None:
    """Give the devices that match a pattern values of config keys, in stages, as `rollout` gives models.

    A value is written and checked as in the config file, is used instead of the file's at once, and stays, also after a
    restart. A device takes the keys of its `swap.rollout_keys`; one that refuses a value has failed. `fleet undo` takes
    the last rollout back.

    \b
    Examples:
      edgemeta fleet set state.enter_score=0.6 log.level=debug --to 'yard-*' --broker 192.168.1.10
      edgemeta fleet set 'objects.labels=[person, car]' --stages 1,100% --broker 192.168.1.10
      edgemeta fleet set --unset log.level --broker 192.168.1.10
    """
    values = dict(map(_value, words))
    if not values and not unset:
        raise click.UsageError("expected KEY=VALUE or --unset KEY")
    _carry(how, Journal(id=_name("values"), values=values, unset=list(unset)), None)


def _value(word: str) -> tuple[str, Any]:
    """Raises EdgemetaError."""
    key, equals, text = word.partition("=")
    try:
        value = yaml.safe_load(text)
        json.dumps(value, allow_nan=False)
    except (yaml.YAMLError, TypeError, ValueError):
        equals = ""
    if not equals or not re.fullmatch(KEY, key):
        raise EdgemetaError(f"found {word!r}, expected KEY=VALUE with a dotted key and a value as in the config file")
    return key, value


def _name(of: str) -> str:
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{of}"


def _carry(how: How, wanted: Journal, content: bytes | None) -> None:
    """Carry out a rollout, or go on with it. content: of its model."""
    file, fleet = JournalFile(how.mqtt, how.base), Fleet(how.base)
    with file.locked():
        known = file.read()
        if known is not None and known.state == "undoing":
            raise EdgemetaError(f"the rollout {known.id} is being undone: edgemeta fleet undo goes on with that")
        if known is not None and known.state == "going" and not known.is_of(wanted):
            what = known.file or known.what
            raise EdgemetaError(
                f"the rollout {known.id} of {what} has not ended: go on with that file, or: edgemeta fleet undo"
            )
        if known is not None and known.state == "going" and not how.dry_run:
            remark(f"going on with the rollout {known.id}: stage {known.stage + 1} of {len(known.stages)}")
            journal = known
        else:
            listen(how.mqtt, "fleet", [*fleet.filters, fleet.orders], _taker(fleet), LISTENS)
            keys = [*wanted.values, *wanted.unset]
            takes, refuse = chosen(list(fleet.devices.values()), how.pattern, keys)
            for line in _refusing(refuse, keys):
                remark(line)
            if not takes:
                needs = f"`swap.rollout_keys` with {', '.join(keys)}" if keys else "`swap.rollouts: install`"
                raise EdgemetaError(f"--to {how.pattern}: no device takes orders, which needs {needs}")
            plan = {
                "stages": assign(how.stages, takes),
                "before": {each.name: each.order for each in takes},
                **{name: getattr(how, name) for name in ("most_failed", "timeout", "settle")},
            }
            journal = wanted.model_copy(update=plan)
        if how.dry_run:
            values = {"stages": journal.stages, "refuse": [each.name for each in refuse]}
            report(how.as_json, values, _plan(journal))
            return
        file.write(journal, content)
        _run(journal, file, how.mqtt, fleet, how.as_json)


@click.command(short_help="Give the devices of the last rollout what they had before.")
@at_broker
@json_of("id, model, values, stages, state, reason, off, devices")
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
    values = journal.model_dump(mode="json", include={"id", "model", "values", "stages", "stage", "state", "reason"})
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


def _refusing(devices: Sequence[Device], keys: Sequence[str]) -> Iterator[str]:
    if devices:
        names = ", ".join(sorted(each.name for each in devices)[:10])
        what = "do not let these keys be set (`swap.rollout_keys`)" if keys else "take no orders (`swap.rollouts`)"
        yield f"{len(devices)} devices that match {what}, such as {names}"


def _plan(journal: Journal) -> Iterator[str]:
    model = journal.model
    if model is None:
        yield journal.what
    else:
        yield f"{model.name} {model.sha256[:8]}, {model.size / 1e6:.1f} MB, {model.address or 'by the broker'}"
    for number, stage in enumerate(journal.stages, 1):
        yield f"stage {number}: {len(stage)} devices: {', '.join(stage)}"


def _end(journal: Journal, waiting: Sequence[str]) -> Iterator[str]:
    what = {"done": f"have {journal.what}", "undone": "have what they had before"}[journal.state]
    yield f"{len(journal.ordered) - len(waiting)} devices {what}"
    if waiting:
        yield f"{len(waiting)} follow when they return: {', '.join(waiting)}"
        if journal.model is not None and journal.model.address is None and journal.state == "done":
            yield f"the broker keeps {journal.model.size:,} bytes for them; the first rollout after that removes them"
    if journal.state == "undone":
        yield f"undone: {journal.reason}"
