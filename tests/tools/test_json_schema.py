"""docs/schema is what the code generates, and AsyncAPI hangs together."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edgemeta.daemon.messages.channels import CHANNELS, Channel
from tools.asyncapi import action_on, document
from tools.json_schema import files

FILES = files()
ASYNCAPI = cache(document)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".schema.json")])
def test_every_schema_is_a_schema_and_closed(name: str) -> None:
    schema = json.loads(FILES[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    for record in [schema, *schema.get("$defs", {}).values()]:
        if record.get("type") == "object":  # JsonValue is anything
            assert record["additionalProperties"] is False
            assert all("description" in field or "$ref" in field for field in record["properties"].values())


LEFT_OUT = {
    "reload_command": {"transaction"},
    "restart_command": {"transaction"},
    "model_command": {"transaction", "camera", "update"},
    "rollout_command": {"transaction", "values"},
    "set_command": {"transaction", "camera", "enabled", "max_fps", "score", "labels"},
}
"""Fields that the sender of a command may leave out."""


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".schema.json")])
def test_a_schema_requires_every_field_that_the_service_sends(name: str) -> None:
    """The service sends all fields of a record, defaults included; only a command's may be left out by its sender."""
    schema = json.loads(FILES[name])
    for record in [schema, *schema.get("$defs", {}).values()]:
        if record.get("type") == "object":  # JsonValue is anything
            left_out = record["properties"].keys() - set(record.get("required", []))
            assert left_out == (LEFT_OUT.get(name.removesuffix(".schema.json"), set()) if record is schema else set())


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_the_asyncapi_document_has_the_same_schemas(channel: Channel) -> None:
    inside = ASYNCAPI()["components"]["schemas"][channel.name]
    if channel.message is not None:
        text = json.dumps(inside).replace(f"#/components/schemas/{channel.name}/$defs/", "#/$defs/")
        assert json.loads(FILES[f"{channel.name}.schema.json"]) == {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **json.loads(text),
        }


def test_the_frame_message_in_the_documentation_is_one(repository: Path) -> None:
    """It validates, and because every field is required nothing is missing."""
    blocks = re.findall(
        r"^```json\n(.*?)^```$", (repository / "docs" / "mqtt.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 1
    schema = json.loads(FILES["frame.schema.json"])
    jsonschema.validate(json.loads(blocks[0]), schema, format_checker=jsonschema.FormatChecker())
    assert list(json.loads(blocks[0])) == list(schema["properties"]), "and the order is that of real messages"


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    whole = document()
    found = references(whole)
    assert len(found) > 20
    for reference in found:
        node = whole
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_the_asyncapi_document_has_qos_and_retention_of_each_topic() -> None:
    whole = document()
    assert whole["asyncapi"] == "3.0.0"
    for channel in CHANNELS:
        assert whole["channels"][channel.name]["address"] == channel.address
        placeholders = set(re.findall(r"{(\w+)}", channel.address))
        assert set(whole["channels"][channel.name]["parameters"]) == placeholders
        binding = whole["operations"][f"{action_on(channel)}_{channel.name}"]["bindings"]["mqtt"]
        assert binding["retain"] == channel.retain
        assert binding["bindingVersion"] == "0.2.0"
    will = whole["servers"]["broker"]["bindings"]["mqtt"]["lastWill"]
    assert will == {"topic": "{base}/{device}/availability", "qos": 1, "message": "offline", "retain": True}
