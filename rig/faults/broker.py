"""Faults of the broker and of the network to it, and its refusals: those of a moment end within 5 s, not 2."""

import signal
from collections.abc import Iterator

from rig.faults.fault import fault
from rig.scenario import CAMERAS, Scenario
from rig.waiting import wait_until

QUOTA_EXCEEDED = 0x97


@fault("broker", "broker killed, back with what it saved")
def broker_killed(scenario: Scenario) -> Iterator[None]:
    """SIGKILL."""
    yield
    scenario.system.restart_broker(signal.SIGKILL, empty=False, pause=lambda: scenario.pause(0.1, 2.0))


@fault("broker", "broker stopped, back empty")
def broker_empty(scenario: Scenario) -> Iterator[None]:
    """All retained topics must be published again."""
    yield
    scenario.system.restart_broker(signal.SIGTERM, empty=True, pause=lambda: scenario.pause(0.1, 2.0))


@fault("broker", "broker frozen")
def broker_frozen(scenario: Scenario) -> Iterator[None]:
    """Connections stay open, but get no answer."""
    scenario.system.broker.freeze()
    yield
    scenario.system.broker.thaw()
    wait_until(scenario.system.subscriber.subscribed.is_set, "the subscriber")


@fault("broker", "network to the broker cut")
def network_reset(scenario: Scenario) -> Iterator[None]:
    """The broker publishes the last will."""
    scenario.system.proxy.reset()
    scenario.wait_for_retained("availability", "offline")
    yield
    scenario.system.proxy.restore(forget=True)


@fault("broker", "network to the broker silent")
def network_silent(scenario: Scenario) -> Iterator[None]:
    """Nothing arrives, and no connection is closed. Afterwards the old connection may continue."""
    scenario.system.proxy.silence()
    scenario.pause(0.5, 3.0)
    yield
    scenario.system.proxy.restore(forget=scenario.random.random() < 0.5)


@fault("broker", "acknowledgements swallowed")
def acknowledgements_swallowed(scenario: Scenario) -> Iterator[None]:
    """Some or all are dropped; unacknowledged messages are sent again on a new connection."""
    count = scenario.random.choice([3, 25, float("inf")])
    scenario.system.proxy.drop_packets(count)
    if scenario.alone and count == float("inf"):
        scenario.wait_for_status("has not acknowledged a message")
    yield
    scenario.system.proxy.pass_all()


@fault("broker", "broker slower than the frames")
def broker_slow(scenario: Scenario) -> Iterator[None]:
    """It acknowledges twenty messages a second: the others wait, and are sent late."""
    scenario.system.proxy.delay(0.05)
    scenario.pause(1.0, 6.0)
    yield
    scenario.system.proxy.delay(0.0)


@fault("refusals", "messages refused for a moment", alone=True)
def messages_postponed(scenario: Scenario) -> Iterator[None]:
    """Quota exceeded: the status says so, and all are sent again."""
    scenario.system.proxy.refuse(QUOTA_EXCEEDED)
    scenario.wait_for_status("refuses")
    scenario.pause(0.0, 3.0)
    yield
    scenario.system.proxy.refuse(None)


@fault("refusals", "frames of a camera refused for good", alone=True)
def frames_refused(scenario: Scenario) -> Iterator[None]:
    """Its rights are taken away while connected: the status says so, and `dropped` counts each of them."""
    scenario.forbid(f"{scenario.random.choice(CAMERAS)}/frame")
    scenario.wait_for_status("refuses")
    yield
    scenario.forbid(None)
