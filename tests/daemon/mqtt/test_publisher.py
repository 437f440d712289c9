"""A published message is the record's JSON with its number."""

from datetime import datetime, timezone
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.messages.channels import STATE, Topics
from edgemeta.daemon.messages.records import StateMessage
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.publisher import Publisher


def state(label: str, number: int = 0) -> StateMessage:
    return StateMessage(
        device="gate",
        boot="b" * 32,
        id=number,
        camera="front",
        state=label,
        previous=None,
        sequence=1,
        since=datetime(2026, 11, 21, 19, 30, 0, 250, timezone.utc),
        clock_synchronized=True,
    )


def publisher() -> Publisher:
    return Publisher(cast("MqttLink", None), Topics("edgemeta", "gate"), qos=1)


@given(label=st.text(min_size=1) | st.just('"id":0,') | st.just('\\"id\\":0,'), before=st.integers(0, 300))
def test_a_message_is_its_record_with_the_next_number(label: str, before: int) -> None:
    encoder = publisher()
    for _ in range(before):
        encoder.encode(STATE, state("before"), "front")
    outgoing = encoder.encode(STATE, state(label), "front", 12)
    assert outgoing.payload == state(label, before + 1).model_dump_json().encode()
    assert (outgoing.topic, outgoing.qos, outgoing.retain) == ("edgemeta/gate/front/state", 1, True)
    assert (outgoing.kept, outgoing.captured_ns) == (True, 12)
