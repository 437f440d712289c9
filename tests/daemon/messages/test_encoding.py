"""Messages as bytes: the record's JSON, its number, and the mark of a message that is sent late."""

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.messages.channels import CHANNELS, Channel
from edgemeta.daemon.messages.encoding import as_historical, encode
from edgemeta.daemon.messages.events import EventMessage
from edgemeta.daemon.messages.records import Fields, FrameMessage


def event(label: str = "truck", score: float = 0.5, number: int = 0, historical: bool = False) -> EventMessage:
    return EventMessage(
        device="gate",
        boot="b" * 32,
        id=number,
        camera="front",
        state=label,
        previous=None,
        score=score,
        lasted_s=None,
        sequence=2**40,
        captured=datetime(2026, 11, 21, 19, 30, 0, 250, timezone.utc),
        clock_synchronized=True,
        historical=historical,
    )


def frame() -> Fields:
    return {
        "schema_version": 2,
        "device": "gate",
        "boot": "b" * 32,
        "id": 0,
        "camera": "front",
        "sequence": 7,
        "captured": datetime(2026, 11, 21, 19, 30, 0, 250, timezone.utc),
        "clock_synchronized": True,
        "model": {"name": "resnet8", "sha256": "ab" * 32},
        "backend": "cpu",
        "labels": [{"label": "Grüße", "score": 0.83169}, {"label": '"id":0,', "score": 0.0}],
        "unknown": False,
        "objects": [
            {
                "id": 7,
                "label": "person",
                "name": "Ann",
                "score": 0.5,
                "box": (1.5, 2.0, 30.25, 40.0),
                "box_relative": (0.1, 0.2, 0.3, 0.4),
                "zones": ["yard"],
                "keypoints": [{"name": "nose", "point": (1.5, 2.0), "point_relative": (0.1, 0.2), "score": 0.5}],
                "outline_relative": [(0.1, 0.2), (0.3, 0.2), (0.3, 0.4)],
            }
        ],
        "embedding": [0.6, -0.8],
        "keypoints": [{"name": "nose", "point": (1.5, 2.0), "point_relative": (0.1, 0.2), "score": None}],
        "segments": {
            "labels": ["road"],
            "rows": 1,
            "columns": 3,
            "box_relative": (0.0, 0.0, 1.0, 1.0),
            "runs": [-1, 1, 0, 2],
        },
        "outputs": {"age": {"shape": (1, 1, 2), "values": [0.5, 1e-20]}},
        "state": None,
        "counts": {"person": 1},
        "zones": {"yard": {"person": 1}},
        "latency_us": {"delay": 0, "wait": 1, "preprocess": 2, "inference": 3, "postprocess": 4, "total": 10},
        "dropped": {"superseded": 0, "failed": 0, "outbox": 0, "refused": 0, "stopped": 0},
        "withheld": 0,
        "historical": False,
    }


texts = st.text() | st.sampled_from(['"id":0,', ',"historical":false}', "\\", "\x00", "\u2028", "😀"])
numbers = st.integers(1, 2**53)


@given(label=texts, number=numbers)
def test_a_record_is_encoded_with_its_number_and_stays_as_it_is(label: str, number: int) -> None:
    record = event(label)
    assert encode(record, number) == event(label, number=number).model_dump_json().encode()
    assert record == event(label)


@given(number=numbers)
def test_the_fields_of_a_frame_are_encoded_as_its_record_would_be(number: int) -> None:
    fields = frame()
    payload = encode(fields, number)
    assert fields["id"] == number
    assert payload == FrameMessage.model_validate(fields).model_dump_json().encode()


@given(label=texts, score=st.floats(0, 1), number=numbers)
def test_marking_a_message_as_historical_changes_nothing_else(label: str, score: float, number: int) -> None:
    live, late = (event(label, score, number, historical).model_dump_json().encode() for historical in (False, True))
    assert as_historical(live) == late
    assert as_historical(late) == late


@pytest.mark.parametrize(
    "payload", [b"", b"5", b"[]", b'{"a":1}', b"not JSON", b'"historical"', b"\xff", b'{"historical']
)
def test_a_payload_without_that_member_is_returned_unchanged(payload: bytes) -> None:
    assert as_historical(payload) == payload


@pytest.mark.parametrize("channel", [each for each in CHANNELS if each.kept], ids=lambda channel: channel.name)
def test_every_kept_message_can_be_marked(channel: Channel) -> None:
    assert channel.message is not None
    late = channel.message.model_construct(historical=False).model_dump_json(warnings=False).encode()
    assert json.loads(as_historical(late)) == json.loads(late) | {"historical": True}
