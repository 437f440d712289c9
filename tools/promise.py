"""What a release promises to keep: docs/stable.json, compared with the code, and rewritten at a release.

    python -m tools.promise            the differences that break the promise of the last release; exit 1 with any
    python -m tools.promise --write    the promise of the version that the source states

Users give what is of `Role.TAKEN` (config keys, commands, options, model files) and receive what is of `Role.GIVEN`
(messages); `Role.FIXED` has one form only. `broken` is the one definition of what is compatible. Within a major version
--write refuses what breaks the promise.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from edgemeta import __version__
from tools.surface import SECTIONS, Bounds, Surface

ROOT = Path(__file__).parent.parent
FILE = "docs/stable.json"
Promise: TypeAlias = dict[str, Surface]


class Role(Enum):
    """Who must cope with a change."""

    TAKEN = "taken"
    GIVEN = "given"
    FIXED = "fixed"


ROLES = {
    "config": Role.TAKEN,
    "commands over MQTT": Role.TAKEN,
    "options": Role.TAKEN,
    "model file": Role.TAKEN,
    "messages": Role.GIVEN,
    "topics": Role.FIXED,
    "plugin API": Role.FIXED,
    "C interface": Role.FIXED,
    "exit codes": Role.FIXED,
}


def broken(role: Role, name: str, before: Surface, now: Surface) -> str | None:
    """What one entry of a surface breaks, or None. An entry that did not exist breaks nothing unless it is required.

    Taken: whatever was accepted still is, nothing more is required, and what is left out means the same. Given: every
    field still comes, with values of the kinds it had; text from a list of words may have new words. Fixed: equal.
    """
    old, new = before.get(name), now.get(name)
    if new is None:
        return "is gone"
    if old is None:
        known = name.rpartition(".")[0] in before or "." not in name
        return "is new, and required" if role is Role.TAKEN and new.get("required") and known else None
    if role is Role.FIXED:
        return None if old == new else f"was {_shown(old)}, is {_shown(new)}"
    wide, narrow = (new, old) if role is Role.TAKEN else (old, new)
    if not _covers(wide["is"], narrow["is"], new_words=role is Role.GIVEN):
        return f"was {_shown(old)}, is {_shown(new)}"
    if role is Role.GIVEN:
        return "may be missing now" if old.get("required") and not new.get("required") else None
    if new.get("required") and not old.get("required"):
        return "is required now"
    if not old.get("required") and old.get("default") != new.get("default"):
        return f"had the default {_shown(old.get('default'))}, has {_shown(new.get('default'))}"
    return None


def _covers(wide: Mapping[str, Bounds], narrow: Mapping[str, Bounds], new_words: bool) -> bool:
    """Whether every value of some kinds is one of others; kinds as `tools.surface.Entry` describes them."""
    return all(_covers_kind(wide, kind, bounds, new_words) for kind, bounds in narrow.items())


def _covers_kind(wide: Mapping[str, Bounds], kind: str, bounds: Bounds, new_words: bool) -> bool:
    if kind == "words":
        words = wide.get("words", [])
        free = {"string" if isinstance(word, str) else "integer" for word in bounds} <= wide.keys()
        return free or (new_words and bool(words)) or all(word in words for word in bounds)
    found = next((wide[each] for each in (kind, "number" if kind == "integer" else kind) if each in wide), None)
    if found is None:
        return False
    (least, most), (lowest, highest) = (each or [None, None] for each in (found, bounds))
    return (least is None or (lowest is not None and least <= lowest)) and (
        most is None or (highest is not None and highest <= most)
    )


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def differences(before: Promise, now: Promise) -> Iterator[str]:
    """What breaks a promise, one sentence for each entry."""
    for section, old in before.items():
        new = now.get(section, {})
        for name in [*old, *(each for each in new if each not in old)]:
            if (reason := broken(ROLES[section], name, old, new)) is not None:
                yield f"{section}: {name} {reason}"


def surface() -> Promise:
    """What the code offers now."""
    return {section: dict(sorted(entries())) for section, entries in SECTIONS.items()}


def released(root: Path = ROOT) -> tuple[str, Promise]:
    """The version and the promise of the last release."""
    content = json.loads((root / FILE).read_text("utf-8"))
    return content.pop("version"), content


def text(version: str, promise: Promise) -> str:
    """A promise as a file, an entry a line."""
    lines = ["{", f' "version": {_shown(version)}']
    for section, entries in promise.items():
        rows = ",\n".join(f"  {_shown(name)}: {_shown(entry)}" for name, entry in entries.items())
        lines[-1] += ","
        lines += [f" {_shown(section)}: {{", rows, " }"]
    return "\n".join([*lines, "}", ""])


def _is_major(before: str, now: str) -> bool:
    """Whether a version may break what another one promised: its first number is greater, or there was no 1.0."""
    old, new = (int(version.partition(".")[0]) for version in (before, now))
    return old == 0 or new > old


def main() -> None:
    """Compare or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write, now = parser.parse_args().write, surface()
    version, before = released() if (ROOT / FILE).is_file() else ("0", {})
    found = list(differences(before, now))
    print("\n".join(found))
    if found and not (write and _is_major(version, __version__)):
        sys.exit(f"{len(found)} changes break the promise of {version} ({FILE}, docs/stability.md)")
    if write:
        (ROOT / FILE).write_text(text(__version__, now), "utf-8")


if __name__ == "__main__":
    main()
