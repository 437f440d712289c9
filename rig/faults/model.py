"""Models swapped, replaced, damaged."""

import hashlib
from collections.abc import Iterator

from rig.command_client import send_command
from rig.faults.fault import fault
from rig.scenario import CURRENT, Scenario
from rig.waiting import RigError, wait_until


@fault("model", "model swapped by command", alone=True)
def model_swapped(scenario: Scenario) -> Iterator[None]:
    """Answered after the trial of the new model; `info` names it."""
    other = scenario.other_model()
    answer = send_command(scenario.system.broker.port, scenario.system.device, "model", model=other)
    if not answer["ok"]:
        raise RigError(f"a good model was not swapped in: {answer['outcome']}")
    wait_until(lambda: scenario.runs(other), "info to tell the new model")
    yield


@fault("model", "model file replaced, reloaded by SIGHUP", alone=True)
def model_replaced(scenario: Scenario) -> Iterator[None]:
    """The same line of the config, another file content."""
    other = scenario.other_model()
    scenario.put_model(other)
    scenario.system.running.reload()
    wait_until(lambda: scenario.runs(other), "info to tell the new model")
    yield


@fault("model", "refused model left in the config, service restarted", alone=True)
def refused_model_left(scenario: Scenario) -> Iterator[None]:
    """A flipped bit: refused by a reload, and replaced by the last good model at the next start, until corrected."""
    file = scenario.models / CURRENT
    content = file.read_bytes()
    good = hashlib.sha256(content).hexdigest()
    wait_until(lambda: good in scenario.remembered, "the good model to be kept")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    _, said = scenario.system.running.reload()
    if "config not reloaded: " not in said or "is damaged" not in said:
        raise RigError(f"a model with a flipped bit was not refused: {said}")
    scenario.wait_for_retained("swap", {"result": "refused"})
    scenario.stop_service()
    scenario.start_service()
    scenario.wait_for_retained("swap", {"result": "fallback", "boot": scenario.retained("info")["boot"]})
    info = scenario.retained("info")
    if info["model"]["sha256"] != good or info["model_refused"] is None:
        raise RigError(f"the last good model is not in use, or not reported: {info}")
    scenario.wait_for_status("model refused, another one is in use: ")
    yield
    file.write_bytes(content)
    scenario.system.running.reload()
    scenario.wait_for_retained("swap", {"result": "settled", "trigger": "signal"})


@fault("model", "broken models refused by command", alone=True)
def model_refused(scenario: Scenario) -> Iterator[None]:
    """One truncated, one invalid, one missing: each answered, and the old model stays in use."""
    before = scenario.retained("info")
    (scenario.models / "cut.safetensors").write_bytes((scenario.models / CURRENT).read_bytes()[:50_000])
    (scenario.models / "text.safetensors").write_text("no model")
    for name in ("cut", "text", "gone", "../cut"):
        answer = send_command(scenario.system.broker.port, scenario.system.device, "model", model=name)
        if answer["ok"]:
            raise RigError(f"the broken model {name} was taken: {answer['outcome']}")
    if scenario.retained("info") != before:
        raise RigError("a broken model changed something")
    yield
