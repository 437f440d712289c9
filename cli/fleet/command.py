"""`edgemeta fleet`: what runs on the devices of a broker."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase

import click

from edgemeta.cli.broker import listen
from edgemeta.cli.fleet.devices import Device, Fleet, texts
from edgemeta.cli.fleet.forget_command import forget
from edgemeta.cli.fleet.options import at_broker
from edgemeta.cli.fleet.rollout_command import rollout, set_values, undo
from edgemeta.cli.options import json_of, report
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.subscriptions import Incoming

HEAD = ("device", "state", "version", "model", "cameras", "frames/s", "seen")
UNKNOWN = "-"
REDRAW = 2.0
"""Seconds between two tables of --watch."""


@click.group()
def fleet() -> None:
    """List the devices of a broker; give them models and values.

    \b
    Examples:
      edgemeta fleet list --broker 192.168.1.10
      edgemeta fleet list --config /etc/edgemeta/config.yaml --watch
      edgemeta fleet rollout better.safetensors --to 'yard-*' --stages 1,10%,100% --broker 192.168.1.10
    """


fleet.add_command(rollout)
fleet.add_command(set_values)
fleet.add_command(undo)
fleet.add_command(forget)


@fleet.command("list", short_help="List the devices of a broker: version, model, cameras, problems.")
@click.argument("pattern", default="*")
@at_broker
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=3.0,
    show_default=True,
    help="How long messages are awaited; frames/s come every `stats.interval` seconds, 10 by default.",
)
@click.option("--watch", is_flag=True, help="Show the table again and again until Ctrl-C.")
@json_of(
    "devices (device, state, version, model, model_sha256, cameras, frames_per_s, seen, wanted, rollout, problems)"
)
def list_devices(pattern: str, mqtt: MqttConfig, base: str, seconds: float, watch: bool, as_json: bool) -> None:
    """List the devices whose name matches PATTERN (`yard-*`; all without it) and what is wrong with each.

    It reads the retained messages of all devices below the base topic, and what they send meanwhile. A device is
    offline when it said so, or when the broker lost it. It changes nothing. With login and access lists it needs the
    right to read `<base>/+/+` and `<base>/+/+/status`; with `<base>/+/cmd/rollout` it shows, too, what a rollout wants
    and is not so yet.

    \b
    Examples:
      edgemeta fleet list --broker 192.168.1.10
      edgemeta fleet list 'yard-*' --config /etc/edgemeta/config.yaml --seconds 15
      edgemeta fleet list --broker 192.168.1.10 --json | jq -r '.devices[] | select(.problems != []) | .device'
    """
    if watch and as_json:
        raise click.UsageError("expected only one of --watch, --json")
    found = Fleet(base)
    while True:
        _listen(mqtt, found, REDRAW if watch else seconds)
        devices = [each for name, each in sorted(found.devices.items()) if fnmatchcase(name, pattern)]
        if watch:
            click.clear()
        values = {"devices": [each.as_json() for each in devices]}
        report(as_json, values, _lines(devices, datetime.now(timezone.utc), len(found.devices)))
        if not watch:
            return


def _listen(mqtt: MqttConfig, found: Fleet, seconds: float) -> None:
    def take(message: Incoming) -> None:
        found.take(message.topic, message.payload, retained=message.retained)

    listen(mqtt, "fleet", found.filters, take, seconds, optional=[found.orders])


def _lines(devices: Sequence[Device], now: datetime, all_devices: int) -> Iterator[str]:
    """A table, and below each device its problems."""
    if not devices:
        yield f"no device matches, of {all_devices}" if all_devices else "no device has published below this base topic"
        return
    rows = [HEAD, *(_row(each, now) for each in devices)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, device in zip(rows, [None, *devices], strict=True):
        yield "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        if device is not None and device.wanted is not None:
            yield f"  > {device.wanted}"
        if device is not None and device.values:
            yield f"  = {', '.join(texts(device.values))}"
        for problem in () if device is None else device.problems():
            yield f"  ! {problem}"
    offline = sum(each.online is False for each in devices)
    troubled = sum(any(True for _ in each.problems()) for each in devices)
    yield f"{len(devices)} devices, {offline} offline, {troubled} with problems"


def _row(device: Device, now: datetime) -> tuple[str, ...]:
    info = device.info
    return (
        device.name,
        device.state,
        UNKNOWN if info is None else info.version,
        UNKNOWN if info is None else f"{info.model.name} {info.model.sha256[:8]}",
        f"{device.working}/{len(device.cameras)}",
        UNKNOWN if device.frames_per_s is None else f"{device.frames_per_s:g}",
        UNKNOWN if device.seen is None else f"{max(0, (now - device.seen).total_seconds()):.0f} s ago",
    )
