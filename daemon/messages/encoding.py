"""Messages as JSON in UTF-8, and the mark of a message that is sent late."""

from pydantic_core import from_json, to_json

from edgemeta.daemon.messages.records import Fields, Message


def encode(message: Message | Fields, number: int) -> bytes:
    """Return a message as JSON, with `number` as its `id`. A record is left as it is; in a dict the `id` is set."""
    if isinstance(message, Message):
        return to_json(message.model_copy(update={"id": number}))
    message["id"] = number
    return to_json(message)


def as_historical(payload: bytes) -> bytes:
    """Return an encoded message with `historical` set to true; a payload without such a member is returned as it is."""
    try:
        message = from_json(payload)
    except ValueError:
        return payload
    if not isinstance(message, dict) or "historical" not in message:
        return payload
    return to_json(message | {"historical": True})
