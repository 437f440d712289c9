"""An integration for a Home Assistant core under test: adds the MQTT integration, then answers on a socket.

This file is copied into the core's `custom_components` and runs there, with the core's packages. Each connection sends
one line of JSON and gets one: `{"do": "entities"}`, `{"do": "call", "domain": …, "service": …, "data": {…}}` or
`{"do": "devices"}`.
"""

import asyncio
import json
import logging
from typing import Any

from homeassistant.helpers import device_registry, entity_registry

DOMAIN = "probe"


class _Complaints(logging.Handler):
    """Warnings and errors of the MQTT integration and of what its entities belong to."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("homeassistant") and "custom integration" not in record.getMessage():
            self.found.append(f"{record.name}: {record.getMessage()}")


async def async_setup(hass: Any, config: Any) -> bool:
    """Listen, and add the MQTT integration as a person does it in the browser."""
    keys = config[DOMAIN]
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            result = await _answer(hass, complaints, json.loads(await reader.readline()))
        except Exception as error:  # noqa: BLE001 - told to the one who asked
            result = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(result, default=str).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", keys["port"])
    hass.data[DOMAIN] = server
    hass.async_create_task(_add_mqtt(hass, keys["broker"], complaints))
    return True


async def _add_mqtt(hass: Any, port: int, complaints: _Complaints) -> None:
    if hass.config_entries.async_entries("mqtt"):
        return
    flow = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    made = await hass.config_entries.flow.async_configure(flow["flow_id"], {"broker": "127.0.0.1", "port": port})
    if str(made["type"]) != "create_entry":
        complaints.found.append(f"the MQTT integration was not added: {made}")


async def _answer(hass: Any, complaints: _Complaints, request: dict[str, Any]) -> Any:
    match request["do"]:
        case "entities":
            known = entity_registry.async_get(hass).entities.values()
            return {each.unique_id: _entity(hass, each) for each in known if each.platform == "mqtt"}
        case "devices":
            return [
                {key: getattr(each, key) for key in ("name", "configuration_url", "sw_version", "suggested_area")}
                for each in device_registry.async_get(hass).devices.values()
            ]
        case "complaints":
            return complaints.found
        case "call":
            await hass.services.async_call(request["domain"], request["service"], request["data"], blocking=True)
            return {}
        case other:
            raise ValueError(other)


def _entity(hass: Any, entry: Any) -> dict[str, Any]:
    state = hass.states.get(entry.entity_id)
    return {
        "id": entry.entity_id,
        "platform": entry.domain,
        "name": entry.original_name,
        "icon": entry.original_icon,
        "category": entry.entity_category,
        "state": None if state is None else state.state,
        "attributes": {} if state is None else dict(state.attributes),
    }
