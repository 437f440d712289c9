"""Carries out a rollout: publishes the orders of its journal, listens to the devices, and takes step after step."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator

from edgemeta.cli.fleet.devices import Fleet
from edgemeta.cli.fleet.journal import Journal, JournalFile
from edgemeta.cli.fleet.progress import DONE, OFF, WAITING, Step, standing, step
from edgemeta.cli.fleet.session import Session
from edgemeta.daemon.messages.channels import ROLLOUT_COMMAND, Topics
from edgemeta.daemon.messages.rollouts import CHUNK, WantedModel

TICK = 0.5
"""Seconds between two looks at what the devices have said."""


def carry_out(
    journal: Journal, file: JournalFile, session: Session, fleet: Fleet, tell: Callable[[str], None]
) -> Journal:
    """Go on with a rollout to its end; return its journal. Raises EdgemetaError."""
    if journal.state == "going" and journal.model is not None:
        _give(journal.model, file, session, fleet.base)
    while journal.state in ("going", "undoing"):
        file.write(journal)
        tell(_begins(journal))
        _publish(journal, session, fleet)
        journal = _stage(journal, file, session, fleet, tell)
    _publish(journal, session, fleet)
    others = [each for name, each in fleet.devices.items() if name not in journal.ordered and each.order is not None]
    awaited = [journal.order(name).model for name in off(journal, fleet)]
    awaited += [each.order.model for each in others if each.order is not None and each.wanted is not None]
    orders = [each for each in (*journal.before.values(), *(other.order for other in others)) if each is not None]
    known = [journal.model, *journal.given, *(order.model for order in orders)]  # also those of a rollout before
    clear_parts(known, awaited, session, fleet.base)
    session.finish()
    file.write(journal)
    return journal


def clear_parts(
    models: Iterable[WantedModel | None], awaited: Collection[WantedModel | None], session: Session, base: str
) -> None:
    """Have the broker forget the parts of those models for which no device waits."""
    for model in models:
        if model is not None and model not in awaited:
            for topic in _parts_of(base, model):
                session.retain(topic, b"")


def off(journal: Journal, fleet: Fleet) -> list[str]:
    """The devices that have not taken their order yet."""
    found = {name: standing(journal, fleet.devices.get(name), name, is_late=False) for name in journal.ordered}
    return [name for name, each in found.items() if each.kind in (OFF, WAITING)]


def _publish(journal: Journal, session: Session, fleet: Fleet) -> None:
    for device in journal.ordered:
        order = journal.order(device)
        left_out = {"transaction"} if order.values else {"transaction", "values"}  # devices before that know none
        session.retain(Topics(fleet.base, device).of(ROLLOUT_COMMAND), order.model_dump_json(exclude=left_out).encode())


def _stage(journal: Journal, file: JournalFile, session: Session, fleet: Fleet, tell: Callable[[str], None]) -> Journal:
    """Wait until the next step; return its journal."""
    began = time.monotonic()
    waits_until, told, absent = began, dict[str, str](), set[str]()
    while True:
        session.run(TICK)
        for name, model in _lost(journal, fleet):
            if model not in journal.given:
                journal = journal.model_copy(update={"given": [*journal.given, model]})
                file.write(journal)
            if not _give(model, file, session, fleet.base) and name not in absent:
                absent.add(name)
                tell(f"  {name}: lost {model.name}, which did not come from here: give it by a rollout of that")
        now = time.monotonic()
        found = step(journal, fleet.devices, now - began, now - waits_until)
        for line in _news(found, told):
            tell(line)
        if found.next is not None:
            return found.next
        if found.counts[WAITING]:
            waits_until = now


def _begins(journal: Journal) -> str:
    if journal.state == "undoing":
        return f"{journal.reason}: {len(journal.ordered)} devices go back to what they had"
    names = journal.stages[journal.stage]
    return f"stage {journal.stage + 1} of {len(journal.stages)}: {len(names)} devices"


def _news(found: Step, told: dict[str, str]) -> Iterator[str]:
    for name, each in found.standings.items():
        if each.kind != WAITING and told.get(name) != each.text:
            told[name] = each.text
            yield f"  {name}: {each.text} ({found.counts[DONE]} of {len(found.standings)} done)"


def _lost(journal: Journal, fleet: Fleet) -> Iterator[tuple[str, WantedModel]]:
    """The devices that are given a former model by the broker, and do not have it any more."""
    for name in journal.ordered:
        device, model = fleet.devices.get(name), journal.order(name).model
        said = None if device is None or device.info is None else device.info.rollout
        if said is None or model is None or model.address is not None:
            continue
        is_former = journal.state == "undoing" or model != journal.model
        if is_former and (said.state, said.sha256) == ("fetching", model.sha256):
            yield name, model


def _give(model: WantedModel, file: JournalFile, session: Session, base: str) -> bool:
    """Have the broker retain the parts of a model that goes by it; return whether its file is here."""
    content = file.content_of(model)
    if content is None:
        return False
    for part, topic in enumerate(_parts_of(base, model)):
        session.retain(topic, content[CHUNK * part : CHUNK * (part + 1)])
    return True


def _parts_of(base: str, model: WantedModel) -> list[str]:
    """The topics of the parts of a model; none where devices fetch it from an address."""
    count = -(-model.size // CHUNK) if model.address is None else 0
    return [Topics(base, "").part(model.sha256, part) for part in range(count)]
