"""Faults of the disk that the outbox is on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from rig.faults.fault import fault
from rig.scenario import Scenario
from rig.waiting import RigError, wait_until

ROOM_USED_UP = 60.0
"""Seconds within which messages fill the reserved space of the outbox file on a full disk."""


@fault("disk", "disk full while the broker is away", alone=True, disk=True)
def disk_full(scenario: Scenario) -> Iterator[None]:
    """Messages wait in memory, the status reports it, and none is lost."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.disk.fill()
    scenario.wait_for_status("not connected", "outbox in memory: ", seconds=ROOM_USED_UP)
    yield
    scenario.disk.empty()
    scenario.system.proxy.restore(forget=True)


@fault("disk", "broker returns while the disk is full", alone=True, disk=True)
def disk_full_broker_returns(scenario: Scenario) -> Iterator[None]:
    """The messages on disk and in memory are sent."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.wait_for_status("not connected", "messages wait")
    scenario.disk.fill()
    yield
    scenario.system.proxy.restore(forget=True)
    scenario.system.settle()
    scenario.disk.empty()


@fault("disk", "service restarted while the disk is full", alone=True, disk=True)
def disk_full_service_returns(scenario: Scenario) -> Iterator[None]:
    """The messages in its outbox file are sent while the disk is still full."""
    assert scenario.disk is not None
    scenario.system.proxy.reset()
    scenario.wait_for_status("not connected", "messages wait")
    scenario.disk.fill()
    before = len(scenario.system.pending)
    if scenario.random.random() < 0.5:
        scenario.system.running.kill()
    else:
        scenario.stop_service()
    scenario.system.record_kill()
    if len(scenario.system.pending) == before:
        raise RigError("no message was in the outbox file when the service ended: the fault shows nothing")
    yield
    scenario.system.proxy.restore(forget=True)
    scenario.start_service()
    scenario.system.settle()
    wait_until(lambda: not scenario.system.lost_from_outbox, "the messages in the outbox file")
    scenario.disk.empty()


@fault("disk", "disk read-only when the service starts", alone=True, disk=True)
def disk_read_only(scenario: Scenario) -> Iterator[None]:
    """The outbox is in memory until the disk can be written; the messages left in the file are sent then."""
    assert scenario.disk is not None
    scenario.stop_service()
    scenario.disk.protect()
    scenario.start_service()
    scenario.wait_for_status("outbox in memory: ")
    yield
    scenario.disk.release()


@fault("disk", "outbox file replaced by another program's", alone=True)
def outbox_replaced(scenario: Scenario) -> Iterator[None]:
    """A database moved to its place while messages are written: they wait in memory, and it stays as it is."""
    other, file = scenario.system.state / "other.sqlite3", scenario.system.outbox
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE own (content TEXT)")
        database.commit()
    content = other.read_bytes()
    scenario.system.proxy.reset()
    scenario.wait_for_status("not connected", "messages wait")
    other.replace(file)
    scenario.wait_for_status("outbox in memory: ")
    yield
    if file.read_bytes() != content:
        raise RigError("another program's database was written")
    file.unlink()
    scenario.system.proxy.restore(forget=True)
