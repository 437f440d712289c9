"""What comes next in a rollout: from its journal and what the devices say. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from edgemeta.cli.fleet.devices import Device
from edgemeta.cli.fleet.journal import Journal

DONE, FAILED, OFF, WAITING = "done", "failed", "off", "waiting"


@dataclass(frozen=True)
class Standing:
    """How a device gets on with its order. text: for people."""

    kind: str
    text: str


def standing(journal: Journal, device: Device | None, name: str, is_late: bool) -> Standing:
    """How a device gets on. is_late: whether the time of the stage is over."""
    order = journal.order(name)
    sha256 = None if order.model is None else order.model.sha256
    said = None if device is None or device.info is None else device.info.rollout
    is_told = said is not None and (said.rollout, said.sha256) == (order.rollout, sha256)
    if said is not None and is_told and said.state == FAILED:
        return Standing(FAILED, said.reason or FAILED)
    if said is not None and is_told and said.state == DONE and device is not None and device.online is not False:
        return Standing(DONE, DONE)
    if device is not None and device.online is False and not is_told:
        return Standing(OFF, "off: it follows when it returns")
    if is_late:
        return Standing(FAILED, f"no result within {journal.timeout:g} s")
    if said is None or not is_told:
        return Standing(WAITING, "waiting")
    share = "" if said.percentage is None else f" {said.percentage} %"
    return Standing(WAITING, f"{said.state}{share}" + (f": {said.reason}" if said.reason else ""))


@dataclass(frozen=True)
class Step:
    """What to do: `next` is the journal to write, None to go on waiting. counts: devices by kind of standing."""

    standings: Mapping[str, Standing]
    next: Journal | None

    @property
    def counts(self) -> Counter[str]:
        """Devices by the kind of their standing."""
        return Counter(each.kind for each in self.standings.values())


def step(journal: Journal, devices: Mapping[str, Device], waited: float, settled: float) -> Step:
    """Decide. waited: seconds since the stage began; settled: since all its devices have ended."""
    names = journal.stages[journal.stage] if journal.state == "going" else journal.ordered
    late = waited > journal.timeout
    found = {name: standing(journal, devices.get(name), name, late) for name in names}
    counts = Counter(each.kind for each in found.values())
    if journal.state == "going" and counts[FAILED] > journal.most_failed:
        first = next(f"{name}: {each.text}" for name, each in found.items() if each.kind == FAILED)
        reason = f"{counts[FAILED]} of {len(names)} devices of stage {journal.stage + 1} failed, such as {first}"
        return Step(found, journal.model_copy(update={"state": "undoing", "reason": reason}))
    if counts[WAITING] or settled < journal.settle:
        return Step(found, None)
    if journal.state == "undoing":
        return Step(found, journal.model_copy(update={"state": "undone"}))
    if journal.stage + 1 < len(journal.stages):
        return Step(found, journal.model_copy(update={"stage": journal.stage + 1}))
    return Step(found, journal.model_copy(update={"state": "done"}))
