"""When a changed key takes effect: metadata of each field, inherited by the keys below it."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel

from edgemeta.daemon.config.fields import entries_of, optional_section_of, section_of


class Applies(Enum):
    """When a reload applies a changed key. A field is marked with `Annotated[TYPE, Applies.AT_ONCE]`.

    Keys below a marked one have its mark, unless they have their own. Without any it is RESTART.
    """

    AT_ONCE = "at once"
    AFTER_SWAP = "after a swap"
    CAMERA_REOPENS = "camera reopens"
    RESTART = "restart"


AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def marker(metadata: Sequence[object], inherited: Applies) -> Applies:
    """Return the mark among the metadata of a field or type, else the inherited one."""
    return next((each for each in metadata if isinstance(each, Applies)), inherited)


def is_key(root: type[BaseModel], key: str) -> bool:
    """Return whether a dotted key is one below a record; entries of a mapping may have any name."""
    steps, section = key.split("."), root
    while steps:
        field = section.model_fields.get(steps.pop(0))
        if field is None:
            return False
        if (entries := entries_of(field)) is not None:
            section = entries[0]
            del steps[:1]
        elif (below := section_of(field) or optional_section_of(field)) is not None:
            section = below
        else:
            return not steps
    return True


def applies(root: type[BaseModel], key: str) -> Applies:
    """Return when a reload applies a dotted key below a record.

    A new or removed entry of a mapping has the mapping's mark, an unknown key that of its section.
    """
    steps, section, found = key.split("."), root, Applies.RESTART
    while steps and (field := section.model_fields.get(steps.pop(0))) is not None:
        found = marker(field.metadata, found)
        if (entries := entries_of(field)) is not None and len(steps) > 1:
            section, metadata = entries
            found = marker(metadata, found)
            del steps[0]
        elif (below := section_of(field) or optional_section_of(field)) is not None:
            section = below
        else:
            break
    return found


def reloaded(running: AnyRecord, new: AnyRecord, inherited: Applies = Applies.RESTART) -> AnyRecord:
    """Return the running record with all values of the new one that can be applied without a restart."""
    update: dict[str, Any] = {}
    for name, field in type(running).model_fields.items():
        old, value, mark = getattr(running, name), getattr(new, name), marker(field.metadata, inherited)
        if (entries := entries_of(field)) is not None and mark is Applies.RESTART:
            below = marker(entries[1], mark)
            update[name] = {each: reloaded(entry, value.get(each, entry), below) for each, entry in old.items()}
        elif section_of(field) is not None:
            update[name] = reloaded(old, value, mark)
        else:
            update[name] = old if mark is Applies.RESTART else value
    return running.model_copy(update=update)
