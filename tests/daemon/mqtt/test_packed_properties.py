"""Properties that are packed once, against paho's own."""

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.mqtt.packed_properties import PackedProperties


@given(expiry=st.none() | st.integers(1, 2**32 - 1), correlation=st.none() | st.binary(max_size=300))
def test_packed_properties_are_the_bytes_that_paho_packs(expiry: int | None, correlation: bytes | None) -> None:
    expected = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if expiry is not None:
        expected.MessageExpiryInterval = expiry
    if correlation is not None:
        expected.CorrelationData = correlation
    assert PackedProperties(expiry, correlation).pack() == expected.pack()  # type: ignore[no-untyped-call]
