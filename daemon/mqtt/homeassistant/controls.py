"""Entities with which Home Assistant changes something: switches, numbers, selections, updates and buttons; and events.

Each sends a command (docs/mqtt.md) and shows what the service then says, never what was only asked for.
"""

import json
from collections.abc import Sequence
from typing import Any

from edgemeta.daemon.messages.channels import (
    EVENT,
    MODEL_COMMAND,
    RELOAD_COMMAND,
    RESTART_COMMAND,
    SET_COMMAND,
    SETTINGS,
    Topics,
)
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.mqtt.homeassistant.counts import Component

SHORT = 12
"""Digits of a model's digest that are shown as its version."""

UPDATE = (
    "{% set news = value_json.get('update', {}) %}{% set url = news.get('url') %}"
    f"{{{{ dict({{'installed_version': value_json.model_sha256[:{SHORT}], "
    f"'latest_version': value_json.available_sha256[:{SHORT}], 'title': value_json.model, "
    "'release_summary': news.get('failed') or news.get('summary') or '', "
    "'in_progress': news.get('in_progress', false), 'update_percentage': news.get('percentage')}, "
    "**({'release_url': url} if url else {})) | tojson }}"
)
"""The state of an update: Home Assistant knows no address that is none."""

OF_OBJECTS = ("label", "zone", "line", "direction", "score", "lasted_s")
OF_STATES = ("label", "zone", "count", "previous_count", "state", "previous", "score", "lasted_s")
"""Fields of an event message that are attributes of the entity."""

LEAST, MOST = 0.001, 0.999
"""Scores that the command `set` takes."""


def settings(topics: Topics, camera: str, shown: str, has_score: bool) -> dict[str, Component]:
    """Return the entities of what the command `set` changes of a camera. shown: its name for people."""
    send: Component = {
        "state_topic": topics.of(SETTINGS, camera),
        "command_topic": topics.of(SET_COMMAND),
        "entity_category": "config",
    }
    score = "value_json.score"
    found: dict[str, Component] = {
        f"enabled_{camera}": {
            "p": "switch",
            "name": f"{shown} enabled",
            "icon": "mdi:cctv",
            "value_template": "{{ 'ON' if value_json.enabled else 'OFF' }}",
            "payload_on": _command(camera=camera, enabled=True),
            "payload_off": _command(camera=camera, enabled=False),
            "state_on": "ON",
            "state_off": "OFF",
            **send,
        },
        f"limit_{camera}": {
            "p": "number",
            "name": f"{shown} frame rate limit",
            "icon": "mdi:speedometer",
            "value_template": "{{ value_json.max_fps }}",
            "command_template": _with_value("max_fps", camera=camera),
            **_range(0, 1000, 0.001, "fps"),
            **send,
        },
    }
    if has_score:
        found[f"threshold_{camera}"] = {
            "p": "number",
            "name": f"{shown} least score",
            "icon": "mdi:target",
            "value_template": f"{{{{ {score} if {score} is not none and {LEAST} <= {score} <= {MOST} else none }}}}",
            "command_template": _with_value("score", camera=camera),
            **_range(LEAST, MOST, 0.001),
            **send,
        }
    return found


def models(topics: Topics, of: str, prefix: str, choices: Sequence[str], used: str, own: bool) -> dict[str, Component]:
    """Return the entities that choose the model, if there is a choice, and install another one.

    of: the camera whose settings show the model in use. prefix: of the names for people. choices: models that can be
    chosen; used: the one in use. own: whether the camera has a model of its own, rather than that of the device.
    """
    end, camera = (f"_{of}", {"camera": of}) if own else ("", {})
    common: Component = {
        "state_topic": topics.of(SETTINGS, of),
        "command_topic": topics.of(MODEL_COMMAND),
        "entity_category": "config",
    }
    choice: dict[str, Component] = {
        f"choice{end}": {
            "p": "select",
            "name": f"{prefix}model choice",
            "icon": "mdi:brain",
            "options": list(dict.fromkeys((*choices, used))),
            "value_template": "{{ value_json.model }}",
            "command_template": _with_value("model", **camera),
            **common,
        }
    }
    update: dict[str, Component] = {
        f"update{end}": {
            "p": "update",
            "name": f"{prefix}model update",
            "value_template": UPDATE,
            "payload_install": _command(model=used, update=True, **camera),
            **common,
        }
    }
    return {**choice, **update} if choices else update


def events(topics: Topics, camera: str, shown: str, followed: bool) -> Component:
    """Return the entity of a camera's events: of what its objects did if they are followed, else of states and counts.

    A historical event did not happen now: it renders as nothing, which Home Assistant leaves out.
    """
    kinds = [kind.value for kind in EventKind if kind is not EventKind.OBJECT]
    first = "value_json.change, 'id': value_json.object.id" if followed else "value_json.kind"
    fields = ", ".join(f"'{name}': value_json.{name}" for name in (OF_OBJECTS if followed else OF_STATES))
    condition = f"value_json.kind {'==' if followed else '!='} 'object' and not value_json.historical"
    return {
        "p": "event",
        "name": f"{shown} event",
        "icon": "mdi:bell-outline",
        "event_types": [change.value for change in ObjectChange] if followed else kinds,
        "state_topic": topics.of(EVENT, camera),
        "value_template": f"{{% if {condition} %}}{{{{ {{'event_type': {first}, {fields}}} | tojson }}}}{{% endif %}}",
    }


def buttons(topics: Topics) -> dict[str, Component]:
    """Return the buttons of the device."""
    common = {"p": "button", "payload_press": "{}", "entity_category": "config"}
    return {
        "reload": {**common, "name": "reload", "icon": "mdi:reload", "command_topic": topics.of(RELOAD_COMMAND)},
        "restart": {
            **common,
            "name": "restart",
            "device_class": "restart",
            "command_topic": topics.of(RESTART_COMMAND),
        },
    }


def _range(least: float, most: float, step: float, unit: str | None = None) -> Component:
    found: Component = {"min": least, "max": most, "step": step, "mode": "box"}
    return found if unit is None else {**found, "unit_of_measurement": unit}


def _command(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _with_value(field: str, **fields: Any) -> str:
    """Return the template of a command with the value that a person has chosen."""
    others = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in fields.items())
    return f'{{{others}"{field}": {{{{ value | tojson }}}}}}'
