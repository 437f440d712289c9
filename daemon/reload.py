"""Reading the config again while the service runs: all of it is checked first, then compared, then applied at once.

What can change between two frames is applied, and a camera whose keys changed is begun anew. The other changed keys are
named: they need a restart, and keep their running values until then. A config with a mistake changes nothing.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from edgemeta.daemon.config.file import ConfigError
from edgemeta.daemon.config.whole import Config
from edgemeta.daemon.logs import set_up
from edgemeta.daemon.preflight import prepare
from edgemeta.daemon.service import Service

log = logging.getLogger(__name__)

LIVE = ("top_k", "labels", "state", "publish", "homeassistant.enabled", "stats", "log")
"""Keys that are applied without a restart, with everything below them."""


def reload(path: Path, service: Service) -> str:
    """Read the config file again and let the service go by it; returns the outcome as one sentence, and logs it."""
    try:
        plan = prepare(path, service.plan)
    except ConfigError as error:
        log.error("the config was not reloaded and nothing changed:\n%s", error)
        return f"config not reloaded: {error.mistakes[0]}{_and_more(len(error.mistakes) - 1)}"
    keys = changed_keys(service.plan.config, plan.config)
    if plan.network is not service.plan.network:
        plan.network.close()
        if not any(key.startswith(("model", "backend")) for key in keys):
            keys.append("model")  # the same line, another file
    applied = [key for key in keys if _is_live(key)]
    if applied:
        service.apply(live_part(service.plan.config, plan.config), plan.sources)
        set_up(plan.config.log.level, plan.config.log.format)
    return _told(applied, [key for key in keys if key not in applied])


def live_part(running: Config, new: Config) -> Config:
    """Return the running config with everything taken over from the new one that needs no restart."""
    cameras = {name: new.cameras.get(name, camera) for name, camera in running.cameras.items()}
    taken = running.model_copy(update={"cameras": cameras})
    for key in LIVE:
        taken = _with(taken, new, key.split("."))
    return taken


AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def _with(running: AnyRecord, new: AnyRecord, steps: Sequence[str]) -> AnyRecord:
    """Return a record with what lies at a path taken over from another one."""
    name, below = steps[0], steps[1:]
    value = getattr(new, name)
    return running.model_copy(update={name: _with(getattr(running, name), value, below) if below else value})


def _is_live(key: str) -> bool:
    """Tell whether a changed key needs no restart: those of LIVE, and keys of a camera that was there before."""
    steps = key.split(".")
    of_a_camera = steps[0] == "cameras" and len(steps) > 2
    return of_a_camera or any(key == live or key.startswith(f"{live}.") for live in LIVE)


def changed_keys(running: Config, new: Config) -> list[str]:
    """Return the dotted keys whose values differ, in the config's order; a camera that came or went is one key."""
    return _changed("", running, new)


def _changed(prefix: str, old: object, new: object) -> list[str]:
    before, after = _entries(old), _entries(new)
    if before is None or after is None:
        return [] if old == new else [prefix]
    keys: list[str] = []
    for name in [*before, *(name for name in after if name not in before)]:
        path = f"{prefix}.{name}" if prefix else name
        if name not in before or name not in after:
            keys.append(path)
        else:
            keys += _changed(path, before[name], after[name])
    return keys


def _entries(value: object) -> dict[str, object] | None:
    """Return what lies one level below a section or a mapping; None for a plain value."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return {str(name): entry for name, entry in value.items()} if isinstance(value, Mapping) else None


def _told(applied: list[str], waiting: list[str]) -> str:
    parts = [f"applied {', '.join(applied)}"] if applied else []
    parts += [f"{', '.join(waiting)} need a restart"] if len(waiting) > 1 else []
    parts += [f"{waiting[0]} needs a restart"] if len(waiting) == 1 else []
    outcome = "config reloaded: " + ("; ".join(parts) or "nothing changed")
    log.log(logging.WARNING if waiting else logging.INFO, "%s", outcome)
    return outcome


def _and_more(count: int) -> str:
    return f" (and {count} more, see the log)" if count else ""
