"""`edgemeta fleet forget`: devices that are gone for good leave nothing at the broker."""

from collections.abc import Sequence
from itertools import chain

import click
from paho.mqtt.client import topic_matches_sub

from edgemeta.cli.fleet.devices import Fleet
from edgemeta.cli.fleet.journal import JournalFile
from edgemeta.cli.fleet.options import at_broker
from edgemeta.cli.fleet.rollout import clear_parts
from edgemeta.cli.fleet.rollout_command import LISTENS
from edgemeta.cli.fleet.session import Session
from edgemeta.cli.options import json_of, report
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.section import name_of_level
from edgemeta.daemon.mqtt.homeassistant.discovery import topic_filters
from edgemeta.daemon.mqtt.homeassistant.entities import id_of
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.model.errors import EdgemetaError


@click.command(short_help="Clear what devices that are gone for good have left at the broker.")
@click.argument("names", metavar="DEVICE...", nargs=-1, required=True)
@click.option(
    "--discovery-prefix",
    default="homeassistant",
    show_default=True,
    help="Of Home Assistant, as in the config.",
)
@at_broker
@json_of("cleared (the topics of each device)")
def forget(names: Sequence[str], discovery_prefix: str, mqtt: MqttConfig, base: str, as_json: bool) -> None:
    """Clear the retained messages of devices that will not return.

    These are their state, settings, pictures and orders, their device in Home Assistant, and parts of a model that only
    they still had to fetch; a later `undo` leaves them out. A device that is online is refused. The user needs the
    right to read and write `<base>/DEVICE/#`.

    \b
    Examples:
      edgemeta fleet forget yard-9 --broker 192.168.1.10
    """
    filters = {name: [f"{base}/{_checked(name)}/#", *topic_filters(discovery_prefix, id_of(name))] for name in names}
    fleet, found, file = Fleet(base), set[str](), JournalFile(mqtt, base)

    def take(message: Incoming) -> None:
        fleet.take(message.topic, message.payload, retained=message.retained)
        if message.retained:
            found.add(message.topic)

    with file.locked():
        session = Session(mqtt, [*fleet.filters, fleet.orders, *chain.from_iterable(filters.values())], take)
        try:
            session.run(LISTENS)
            topics = {
                name: sorted(topic for topic in found if any(topic_matches_sub(each, topic) for each in own))
                for name, own in filters.items()
            }
            for name in names:
                if not topics[name]:
                    raise EdgemetaError(f"{name}: the broker retains nothing of such a device below {base}/")
                if name in fleet.devices and fleet.devices[name].online:
                    raise EdgemetaError(f"{name} is online, and would publish again: stop its service first")
            if (journal := file.read()) is not None:
                file.write(journal.without(names))
            for topic in chain.from_iterable(topics.values()):
                session.retain(topic, b"")
            gone = [fleet.devices.pop(name).order for name in names if name in fleet.devices]
            awaited = [each.order.model for each in fleet.devices.values() if each.order and each.wanted]
            clear_parts([order.model for order in gone if order], awaited, session, base)
            session.finish()
        finally:
            session.close()
    report(as_json, {"cleared": topics}, (f"{name}: {len(each)} messages cleared" for name, each in topics.items()))


def _checked(name: str) -> str:
    """Raises EdgemetaError for what is no name of a device, such as one with a wildcard."""
    try:
        return name_of_level(name)
    except ValueError as error:
        raise EdgemetaError(f"found the device {name!r}, expected {error}") from None
