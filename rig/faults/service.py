"""Faults of the service itself, its config and its commands."""

import os
import signal
from collections.abc import Iterator

from rig.faults.fault import fault
from rig.flooder import KINDS, Flooder
from rig.scenario import Scenario
from rig.waiting import TIMEOUT, RigError, wait_until

FLOOD_SECONDS = 3.0


@fault("service", "service killed")
def service_killed(scenario: Scenario) -> Iterator[None]:
    """SIGKILL. The messages in its outbox file must arrive later."""
    scenario.system.running.kill()
    yield from _service_is_away(scenario)


@fault("service", "service stopped and started")
def service_stopped(scenario: Scenario) -> Iterator[None]:
    """SIGTERM."""
    scenario.stop_service()
    yield from _service_is_away(scenario)


@fault("service", "service stopped for a moment")
def service_frozen(scenario: Scenario) -> Iterator[None]:
    """SIGSTOP, shorter than the watchdog's timeout: it continues normally."""
    service = scenario.system.running
    service.process.send_signal(signal.SIGSTOP)
    scenario.pause(0.1, 1.0)
    service.process.send_signal(signal.SIGCONT)
    yield


@fault("service", "service frozen until its watchdog aborts it")
def service_starved(scenario: Scenario) -> Iterator[None]:
    """SIGSTOP without SIGCONT."""
    scenario.system.running.process.send_signal(signal.SIGSTOP)
    yield from _aborted(scenario)


@fault("service", "the parent of the streams' processes frozen")
def stream_parent_frozen(scenario: Scenario) -> Iterator[None]:
    """SIGSTOP, and a stream ends: its camera waits until the watchdog aborts the service, or the parent is replaced."""
    service = scenario.system.running
    parent, *_, stream = service.stream_processes
    os.kill(parent, signal.SIGSTOP)
    os.kill(stream, signal.SIGKILL)
    wait_until(lambda: service.aborted.is_set() or parent not in service.stream_processes, "its end", TIMEOUT)
    if service.aborted.is_set():
        yield from _aborted(scenario)
    else:
        yield


def _aborted(scenario: Scenario) -> Iterator[None]:
    """Wait for the manager's abort, then restart the service like the manager."""
    service = scenario.system.running
    if not service.aborted.wait(30):
        raise RigError("the watchdog did not abort a service that hangs")
    service.process.wait(30)
    yield from _service_is_away(scenario)


def _service_is_away(scenario: Scenario) -> Iterator[None]:
    """It has ended: the broker publishes `offline`, as soon as it can."""
    scenario.system.record_kill()
    if scenario.alone:
        scenario.wait_for_retained("availability", "offline")
    yield
    scenario.start_service()


@fault("config", "config reloaded", alone=True)
def config_reloaded(scenario: Scenario) -> Iterator[None]:
    """SIGHUP with a changed value: `info` has the new config's digest. A model chosen by command is reverted, too."""
    before = scenario.retained("info")["config_sha256"]
    scenario.system.keys["top_k"] = 4 - scenario.system.keys.get("top_k", 3)
    scenario.system.write_config()
    took, said = scenario.system.running.reload()
    scenario.time("SIGHUP to reloaded", took, 1.0)
    if "config reloaded: applied " not in said or "top_k" not in said:
        raise RigError(f"a config with another top_k was not applied: {said}")
    wait_until(lambda: scenario.retained("info")["config_sha256"] != before, "info to tell the new config")
    yield


@fault("config", "wrong config refused", alone=True)
def config_refused(scenario: Scenario) -> Iterator[None]:
    """SIGHUP with a mistake in the config: the status reports it, and nothing else changes."""
    before = scenario.retained("info")
    pipe = scenario.folder / "password"
    if not pipe.exists():
        os.mkfifo(pipe)
    changes, expected = scenario.random.choice(
        (
            ({"top_k": 0}, "top_k: found 0, expected at least 1"),
            ({"data_folder": "d" * 300}, "data_folder"),
            ({"mqtt": {"username": "user", "password_file": str(pipe)}}, "password_file"),
        )
    )
    scenario.system.write_config(**changes)
    _, said = scenario.system.running.reload()
    if "config not reloaded: " not in said or expected not in said:
        raise RigError(f"a wrong config was not refused: {said}")
    scenario.system.write_config()
    if (after := scenario.retained("info")) != before:
        changed = {key: (value, after[key]) for key, value in before.items() if after[key] != value}
        raise RigError(f"a wrong config changed something: {changed}")
    yield
    scenario.system.running.reload()


@fault("commands", "command flood", alone=True)
def command_flood(scenario: Scenario) -> Iterator[None]:
    """One client sends as fast as the broker accepts: the topic is unsubscribed, and the status reports it."""
    flooder = Flooder(scenario.system.broker.port, scenario.system.device, scenario.random.choice(KINDS), FLOOD_SECONDS)
    try:
        scenario.wait_for_status("flood of messages on ")
        yield
        flooder.wait(TIMEOUT)
        wait_until(
            lambda: "flood of messages" not in scenario.system.running.manager.status, "the status to tell of no flood"
        )
    finally:
        flooder.close()
