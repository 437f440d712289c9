"""The promise: what breaks it is found in every section, additions are not, and a release writes what it read."""

import copy
import json
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

import tools.promise
from edgemeta.model.document import records
from tools.promise import ROLES, Promise, Role, broken, differences, released, surface, text
from tools.surface import SECTIONS, Surface, of_schema


class Part(BaseModel):
    x: float = Field(ge=0, le=1)


class Before(BaseModel):
    number: int = Field(default=5, ge=1, le=10)
    score: float | None = None
    word: Literal["red", "green"] = "red"
    part: Part | None = None
    parts: list[Part] = []
    named: dict[str, Part] = {}
    needed: str


def changed(**fields: Any) -> Surface:
    """The surface of `Before` with some fields replaced, or removed by None."""
    kept = {name: (each.annotation, each) for name, each in Before.model_fields.items()} | fields
    record = create_model("Changed", **{name: field for name, field in kept.items() if field is not None})
    return dict(of_schema(record.model_json_schema(), "m"))


BEFORE = dict(of_schema(Before.model_json_schema(), "m"))


def found(role: Role, now: Surface) -> list[str]:
    return [f"{name} {why}" for name in {**BEFORE, **now} if (why := broken(role, name, BEFORE, now))]


def test_a_schema_names_every_value() -> None:
    assert {"m.number", "m.part.x", "m.parts[].x", "m.named.*.x", "m.needed"} <= set(BEFORE)
    assert BEFORE["m.number"] == {"is": {"integer": [1, 10]}, "default": 5}
    assert BEFORE["m.needed"] == {"is": {"string": []}, "required": True}
    assert found(Role.TAKEN, BEFORE) == found(Role.GIVEN, BEFORE) == found(Role.FIXED, BEFORE) == []


@pytest.mark.parametrize(
    ("fields", "taken", "given"),
    [
        ({"number": None}, "m.number is gone", "m.number is gone"),
        ({"added": (int, 1)}, None, None),
        ({"added": (int, ...)}, "m.added is new, and required", None),
        ({"number": (str, "5")}, "m.number was", "m.number was"),
        ({"number": (int, Field(default=6, ge=1, le=10))}, "had the default 5, has 6", None),
        ({"number": (int, Field(default=5, ge=0, le=99))}, None, "m.number was"),
        ({"number": (int, Field(default=5, ge=2, le=9))}, "m.number was", None),
        ({"number": (float, Field(default=5, ge=1, le=10))}, None, "m.number was"),
        ({"number": (int | None, Field(default=5, ge=1, le=10))}, None, "m.number was"),
        ({"score": (float, 0.5)}, "m.score was", None),
        ({"word": (Literal["red", "green", "blue"], "red")}, None, None),
        ({"word": (Literal["red"], "red")}, "m.word was", None),
        ({"word": (str, "red")}, None, "m.word was"),
        ({"needed": (str, "")}, None, "m.needed may be missing now"),
        ({"score": (float | None, ...)}, "m.score is required now", None),
    ],
)
def test_what_breaks_those_who_give_and_those_who_receive(
    fields: dict[str, Any], taken: str | None, given: str | None
) -> None:
    for role, expected in ((Role.TAKEN, taken), (Role.GIVEN, given)):
        problems = found(role, changed(**fields))
        assert [expected in each for each in problems] == [True] if expected else not problems, (role, problems)


@pytest.fixture(scope="module")
def now() -> Promise:
    return surface()


def test_every_section_has_a_role_and_entries(now: Promise) -> None:
    assert set(ROLES) == set(SECTIONS) == set(now) == set(released()[1])
    for name in ("mqtt.host", "cameras.*.source", "cameras.*.state.min_frames"):
        assert name in now["config"]
    assert {"frame.labels[].score", "event.object.best.captured", "info.version"} <= set(now["messages"])
    assert {"conv.padding", "Model.layers", *records()} <= set(now["model file"])
    assert {"em_open", "em_run", "EM_NEON"} <= set(now["C interface"])
    assert {"EM_ABI_VERSION", "", "extern"} & set(now["C interface"]) == set()
    assert now["options"]["check.FILE"]["required"]


@pytest.mark.parametrize("section", SECTIONS)
def test_an_entry_that_is_gone_or_renamed_is_found_and_a_new_one_passes(now: Promise, section: str) -> None:
    name = next(name for name in reversed(list(now[section])))
    later = copy.deepcopy(now)
    later[section] = {f"{each}_renamed" if each == name else each: value for each, value in now[section].items()}
    assert f"{section}: {name} is gone" in list(differences(now, later))
    assert list(differences(now, now | {section: {**now[section], "an.addition": {"is": {"string": []}}}})) == []


@pytest.mark.parametrize("section", [each for each, role in ROLES.items() if role is Role.FIXED])
def test_another_text_of_a_fixed_entry_breaks_it(now: Promise, section: str) -> None:
    name, entry = next(iter(now[section].items()))
    (problem,) = differences(now, now | {section: {**now[section], name: {"is": entry["is"] + "?"}}})
    assert problem.startswith(f"{section}: {name} was ")


def test_a_promise_is_written_as_it_is_read(now: Promise, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/stable.json").write_text(text("1.2.3", now))
    version, read = released(tmp_path)
    assert (version, list(differences(read, now)), list(differences(now, read))) == ("1.2.3", [], [])


@pytest.mark.parametrize(("before", "now_", "allowed"), [("0.1.0", "1.0.0", True), ("1.0.0", "1.1.0", False)])
def test_only_another_major_version_may_break_it(
    before: str, now_: str, allowed: bool, now: Promise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "docs/stable.json"
    path.parent.mkdir()
    path.write_text(text(before, now | {"exit codes": {"another": {"is": "3"}}}))
    monkeypatch.setattr(tools.promise, "ROOT", tmp_path)
    monkeypatch.setattr(tools.promise, "released", lambda: released(tmp_path))
    monkeypatch.setattr(tools.promise, "__version__", now_)
    monkeypatch.setattr(sys, "argv", ["promise", "--write"])
    if allowed:
        tools.promise.main()
    else:
        with pytest.raises(SystemExit, match=r"^1 changes break the promise of 1\.0\.0"):
            tools.promise.main()
    assert json.loads(path.read_text())["version"] == (now_ if allowed else before)
