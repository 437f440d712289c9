"""The tables of topics and messages: every topic, record and field, its type, and what a sender may leave out."""

import re

import pytest
from pydantic import BaseModel

from edgemeta.daemon.messages.channels import CHANNELS
from edgemeta.daemon.messages.records import Message
from tools.message_table import records, sections, topics

SECTIONS = sections()


def rows(record: type[BaseModel]) -> list[tuple[str, ...]]:
    """Field, type and meaning."""
    section = f"\n{SECTIONS}".partition(f"\n## {record.__name__}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section, re.MULTILINE)


def test_every_topic_has_a_row() -> None:
    for channel in CHANNELS:
        topic = channel.address.replace("{", "<").replace("}", ">")
        retained, kept = ("yes" if each else "no" for each in (channel.retain, channel.kept))
        assert f"| `{topic}` | {retained} | {kept} | {channel.summary} |" in topics()


@pytest.mark.parametrize("record", records(), ids=lambda record: record.__name__)
def test_every_record_has_its_fields_but_those_of_all_messages(record: type[BaseModel]) -> None:
    common = set(Message.model_fields) if issubclass(record, Message) and record is not Message else set()
    fields = [(name, field.description) for name, field in record.model_fields.items() if name not in common]
    assert [(name, meaning) for name, _, meaning in rows(record)] == fields


def test_every_record_that_a_row_links_has_a_section() -> None:
    linked = set(re.findall(r"\(#(\w+)\)", SECTIONS))
    assert len(linked) > 15
    assert linked <= {record.__name__.lower() for record in records()}


def test_a_command_says_what_may_be_left_out() -> None:
    for channel in CHANNELS:
        if channel.received and channel.message is not None:
            optional = {name for name, kind, _ in rows(channel.message) if kind.endswith(", optional")}
            fields = channel.message.model_fields.items()
            assert optional == {name for name, field in fields if not field.is_required()}


def test_types_are_in_plain_text() -> None:
    found = {name: kind for record in records() for name, kind, _ in rows(record)}
    assert found["captured"] == "time"
    assert found["clock_synchronized"] == "true or false"
    assert found["direction"] == "`left`, `right` or null"
    assert found["objects"] == "list of [FoundObject](#foundobject) or null"
    assert found["box_relative"] == "4 numbers"
    assert found["counts"] == "integer by name or null"
    assert found["kind"] == "`state`, `appeared`, `gone`, `object`"
