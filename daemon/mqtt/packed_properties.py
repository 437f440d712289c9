"""Properties of PUBLISH packets that are packed once instead of for every message.

Packing the properties of one message takes paho 35 to 70 µs of CPU (docs/decisions/0016).
"""

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


class PackedProperties(Properties):
    """Seconds until a message expires, and the correlation data of an answer; None leaves a property out."""

    _packed: bytes

    def __init__(self, expiry: int | None, correlation: bytes | None = None) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if expiry is not None:
            self.MessageExpiryInterval = expiry
        if correlation is not None:
            self.CorrelationData = correlation
        object.__setattr__(self, "_packed", super().pack())  # type: ignore[no-untyped-call]

    def pack(self) -> bytes:
        """Return the bytes for the packet."""
        return self._packed
