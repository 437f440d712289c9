"""Options that the commands of rollouts share: the broker, and how stages are taken."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from edgemeta.cli.broker import broker_of
from edgemeta.cli.config_file import config_of
from edgemeta.cli.options import json_of
from edgemeta.daemon.config.broker import MqttConfig

F = TypeVar("F", bound=Callable[..., Any])


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


@dataclass(frozen=True)
class How:
    """How a rollout goes: the options of its command."""

    pattern: str
    stages: str
    most_failed: int
    timeout: float
    settle: float
    dry_run: bool
    mqtt: MqttConfig
    base: str
    as_json: bool


STAGES = (
    click.option(
        "--to", "pattern", default="*", show_default=True, metavar="PATTERN", help="Names of devices: `yard-*`."
    ),
    click.option(
        "--stages", default="1,10%,100%", show_default=True, help="Devices after each stage: numbers, or shares of all."
    ),
    click.option(
        "--most-failed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Failed devices of a stage that do not halt the rollout.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(1, 86400),
        default=600.0,
        show_default=True,
        help="Seconds after which a device of a stage without a result has failed.",
    ),
    click.option(
        "--settle",
        type=click.FloatRange(0, 86400),
        default=5.0,
        show_default=True,
        help="Seconds to wait after the last device of a stage before the next stage.",
    ),
    click.option("--dry-run", is_flag=True, help="Say which devices each stage would reach, and order nothing."),
)


def in_stages(command: F) -> F:
    """Add the options of a rollout to a command, which gets them as `how`."""

    @at_broker
    @json_of("id, model, values, stages, state, reason, off, devices; with --dry-run stages, refuse")
    @wraps(command)
    def staged(**given: Any) -> Any:
        how = How(**{name: given.pop(name) for name in How.__dataclass_fields__})
        return command(how=how, **given)

    found: Any = staged
    for option in reversed(STAGES):
        found = option(found)
    return cast("F", found)
