"""Messages as bytes: their number, and the mark of a message that is sent late."""

_UNNUMBERED = b'"id":0,'


def numbered(payload: bytes, number: int) -> bytes:
    """Return an encoded message with its number: in the bytes, because a copy of the record costs more than encoding.

    What comes before `id`, device and boot, cannot hold a quotation mark.
    """
    return payload.replace(_UNNUMBERED, b'"id":%d,' % number, 1)


_LIVE, _HISTORICAL = b',"historical":false}', b',"historical":true}'


def as_historical(payload: bytes) -> bytes:
    """Return an encoded frame, state or event message marked `historical`, its last member; others as they are."""
    return payload.removesuffix(_LIVE) + _HISTORICAL if payload.endswith(_LIVE) else payload
