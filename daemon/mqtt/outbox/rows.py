"""The rows of the outbox file: a checksum of each, and the message in it.

SQLite has no checksums of its pages: a flipped bit on a worn memory card would be published.
"""

import time
import zlib
from dataclasses import dataclass

from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage

COLUMNS = "number, boot, made_ns, utc_ns, topic, qos, payload"


def select(columns: str, has_checksums: bool) -> str:
    """Return the beginning of a query for these columns of all messages and, last, their checksums."""
    if not has_checksums:
        return f"SELECT {columns}, NULL FROM messages"  # noqa: S608 - constants
    return f"SELECT {columns}, checksum FROM messages LEFT JOIN checksums USING (number)"  # noqa: S608 - constants


@dataclass(frozen=True)
class Row:
    """A stored message without its payload. utc_ns is None if the clock was not synchronized."""

    number: int
    this_boot: bool
    topic: str
    size: int
    made_ns: int
    utc_ns: int | None


Values = tuple[int, bytes, int, int | None, bytes, int, bytes]
"""Number, boot, made_ns, utc_ns, topic, qos and payload."""


def checksum(row: Values) -> int:
    """Return the CRC-32 of all columns."""
    number, boot, made_ns, utc_ns, topic, qos, payload = row
    head = f"{number} {boot!r} {made_ns} {utc_ns} {topic!r} {qos} ".encode()
    return zlib.crc32(payload, zlib.crc32(head))


def whole(columns: tuple[object, ...], found: object) -> Values | None:
    """Return a row of the file if it holds a message and has its checksum; else None.

    found: the checksum; None for a row of an older version, which has none.
    """
    number, boot, made_ns, utc_ns, topic, qos, payload = columns
    if not (isinstance(number, int) and isinstance(boot, bytes) and isinstance(made_ns, int)):
        return None
    if not (isinstance(topic, bytes) and isinstance(payload, bytes) and isinstance(qos, int) and qos in (0, 1)):
        return None
    if not (utc_ns is None or isinstance(utc_ns, int)) or _text(boot) is None or not _is_topic(topic):
        return None
    row = (number, boot, made_ns, utc_ns, topic, qos, payload)
    return row if found is None or found == checksum(row) else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _is_topic(topic: bytes) -> bool:
    text = _text(topic)
    return text is not None and 0 < len(topic) < 65536 and not any(letter in text for letter in "+#\0")


def delivery_of(row: Values, boot: bytes) -> Delivery:
    """Return the message of a row; `boot` is that of this start of the service."""
    number, made_by, made_ns, _, topic, qos, payload = row
    this_boot = made_by == boot
    made = made_ns if this_boot else time.monotonic_ns()
    message = OutgoingMessage(topic.decode(), payload, 1 if qos else 0, retain=False, kept=True, made_ns=made)
    return Delivery(message, this_boot=this_boot, replayed=True, row=number)
