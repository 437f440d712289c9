"""What the service and the process of a stream say to each other arrives as it was sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.sources.stream.messages import (
    Decoder,
    Failed,
    Message,
    NoKeyFrame,
    Opened,
    Picture,
    packed,
    unpacked,
)

sides, moments, counts = st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
messages = st.one_of(
    st.builds(Picture, sides, sides, sides, moments, st.none() | moments, counts, counts),
    st.builds(Opened, st.booleans()),
    st.builds(Decoder, st.text(), st.none() | st.text()),
    st.builds(Failed, st.text(), st.text(), st.booleans()),
    st.just(NoKeyFrame()),
)


@given(messages)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert unpacked(packed(message)) == message


@given(st.binary(max_size=100))
def test_what_is_no_message_is_an_error_that_the_service_knows(packet: bytes) -> None:
    try:
        unpacked(packet)
    except (ValueError, KeyError, TypeError):
        return
    assert packet[:1] == b"P"
    assert len(packet) == len(packed(Picture(1, 1, 3, 0, None, 0, 0)))


def test_a_picture_that_is_cut_is_none() -> None:
    with pytest.raises(ValueError, match="a picture of 40 bytes, expected"):
        unpacked(packed(Picture(1, 1, 3, 0, None, 0, 0))[:40])
