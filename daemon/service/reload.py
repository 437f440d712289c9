"""Reloads the config while the service runs: it is validated as a whole, compared with the running one, then applied.

Keys that can change between two frames are applied, and a camera whose keys changed is restarted. Other changed keys
are reported: they need a restart of the service and keep their running values until then. A config with a mistake
changes nothing, and neither does one whose models fail in their swap.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel

from edgemeta.daemon.config.config import Config, digest
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.config.reloading import Applies, applies, reloaded
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.inference.swap.replacement import Trigger, replacements_between
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.runtime.log_setup import set_up
from edgemeta.daemon.service.change_result import ChangeResult
from edgemeta.daemon.service.last_good_recorder import release
from edgemeta.daemon.service.plan import Plan, prepare
from edgemeta.daemon.service.service import Service

log = logging.getLogger(__name__)

BeforeSwap: TypeAlias = Callable[[], None]
"""Called when all is validated and loaded, before new models are tried on live frames."""


NOTHING_CHANGED = ChangeResult(True, "config reloaded: nothing changed")


def reload(
    path: Path,
    service: Service,
    trigger: Trigger = "signal",
    before_swap: BeforeSwap = lambda: None,
    keep_settings: bool = False,
) -> ChangeResult:
    """Read the config file again and apply it; the result is logged, too. keep_settings: as in `prepare`."""
    try:
        plan = prepare(path, service.in_use.plan, keep_settings)
    except ConfigError as error:
        log.error("the config was not reloaded; nothing changed:\n%s", error)
        wrong_model = next((each for each in error.mistakes if applies(Config, each.key) is Applies.AFTER_SWAP), None)
        if wrong_model is not None:
            service.report_refused(trigger, str(wrong_model), of_config=True)
        return ChangeResult(False, f"config not reloaded: {error.mistakes[0]}{_and_more(len(error.mistakes) - 1)}")
    return apply_plan(plan, service, trigger, before_swap, of_config=True)


def apply_plan(
    plan: Plan, service: Service, trigger: Trigger, before_swap: BeforeSwap, of_config: bool
) -> ChangeResult:
    """Apply a plan as far as that needs no restart: all of it, or nothing.

    New models are swapped in, which may fail. Models that are then unused are closed. of_config: whether the plan is
    the config file's, rather than a command's.
    """
    running = service.in_use.plan
    keys = changed_keys(running.config, plan.config)
    replacements = replacements_between(running.loaded_models, plan.loaded_models)
    if replacements and not any(applies(Config, key) is Applies.AFTER_SWAP for key in keys):
        keys.append("model")  # the same line, another file
    applied = [key for key in keys if applies(Config, key) is not Applies.RESTART]
    config = reloaded(running.config, plan.config)
    live = replace(
        running,
        base=reloaded(running.base, plan.base),
        settings=plan.settings,
        values=plan.values,
        config=config,
        config_sha256=digest(config),
        loaded_models={
            camera: plan.loaded_models.get(camera, loaded) for camera, loaded in running.loaded_models.items()
        },
        sources={camera: plan.sources.get(camera, source) for camera, source in running.sources.items()},
    )
    try:
        if replacements:
            before_swap()
            report = service.swap(replacements, live, trigger, of_config)
            if report.result is not SwapResult.SWAPPED:
                log.error("the config was not reloaded; nothing changed: %s", report.reason)
                return ChangeResult(
                    False,
                    f"config not reloaded, nothing changed: {report.reason}",
                    cancelled=report.result is SwapResult.CANCELLED,
                )
        elif applied or (plan.settings, plan.values) != (running.settings, running.values):
            _apply_or_revert(service, live, running)
        if of_config:
            service.report_settled(trigger)
        else:
            release(service.in_use.plan)
    finally:
        kept = service.in_use.plan.loaded_models.values()
        close_all([*running.loaded_models.values(), *plan.loaded_models.values()], but=kept)
    if applied:
        set_up(config.log.level, config.log.format)
    return _summary(applied, [key for key in keys if key not in applied])


def _apply_or_revert(service: Service, new: Plan, running: Plan) -> None:
    """Apply a plan; where that fails, for example for want of threads, the running one again."""
    try:
        service.apply(new)
    except BaseException:
        service.apply(running)
        raise


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


def _summary(applied: list[str], waiting: list[str]) -> ChangeResult:
    parts = [f"applied {', '.join(applied)}"] if applied else []
    parts += [f"{', '.join(waiting)} need a restart"] if len(waiting) > 1 else []
    parts += [f"{waiting[0]} needs a restart"] if len(waiting) == 1 else []
    outcome = ChangeResult(True, f"config reloaded: {'; '.join(parts)}") if parts else NOTHING_CHANGED
    log.log(logging.WARNING if waiting else logging.INFO, "%s", outcome.message)
    return outcome


def _and_more(count: int) -> str:
    return f" (and {count} more, see the log)" if count else ""
