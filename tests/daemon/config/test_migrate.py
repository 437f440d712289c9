"""Migration: every former key in every position of a file; comments and order stay, and the values are the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.config.migrate import MigrationError, migrated
from edgemeta.daemon.config.renamed import STEPS, Step

FORMER = {former: new for step in STEPS for former, new in step.renamed.items()}

BEFORE = """\
# the gate
device: gate
swap:   # how models change
  watch: false  # not on flash
  agree: 0.9   # was 0.8
cameras:
  "front":
    source: synthetic://
    timeout: 3  # slow camera
    motion: {enabled: true, "level": 30, every: 5.0}
  timeout:
    source: synthetic://

mqtt:
  queue: 1000
  outbox:
    # in RAM
    folder: /run/edgemeta
# labels
labels:
  cat: animal
"""

AFTER = """\
# the gate
device: gate
watch_files: false
swap:   # how models change
  min_agreement: 0.9   # was 0.8
cameras:
  "front":
    source: synthetic://
    frame_timeout: 3  # slow camera
    motion: {enabled: true, threshold: 30, max_interval: 5.0}
  timeout:
    source: synthetic://

data_folder: /run/edgemeta
# labels
label_map:
  cat: animal
"""


def nested(path: list[str], value: object) -> dict[str, Any]:
    """A mapping with the value at a path of keys."""
    return {path[0]: nested(path[1:], value) if path[1:] else value}


def test_a_config_keeps_its_comments_and_order(tmp_path: Path) -> None:
    after, changes = migrated(BEFORE)
    assert after == AFTER
    assert {change.former: change.new for change in changes} == {
        "labels": "label_map",
        "swap.watch": "watch_files",
        "swap.agree": "swap.min_agreement",
        "cameras.front.timeout": "cameras.front.frame_timeout",
        "cameras.front.motion.level": "cameras.front.motion.threshold",
        "cameras.front.motion.every": "cameras.front.motion.max_interval",
        "mqtt.queue": None,
        "mqtt.outbox.folder": "data_folder",
    }
    path = tmp_path / "c.yaml"
    path.write_text(after)
    assert ConfigFile(path, Config).validate()[1] == []
    assert migrated(after) == (after, [])


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("former", FORMER)
def test_every_former_key_gets_its_name_in_block_and_flow_style(former: str, neighbours: bool, flow: bool) -> None:
    path = former.replace("*", "front").split(".")
    config = nested(path, "1")
    if neighbours:
        inner = config
        for step in path[:-1]:
            inner = inner[step]
        inner |= {"zzz": 2}
    text = yaml.safe_dump({"device": "d", **config}, sort_keys=False, default_flow_style=flow)
    after, (change,) = migrated(text)
    new = FORMER[former].replace("*", "front")
    assert (change.former, change.new) == (".".join(path), new)
    found = yaml.safe_load(after)
    for step in new.split("."):
        found = found[step]
    assert found == "1"
    assert neighbours == ("zzz" in after)


def test_steps_follow_each_other_and_what_was_removed_goes() -> None:
    steps = (Step("1.0", {"a": "b"}), Step("2.0", {"b": "c.d"}, removed=frozenset({"e"})), Step("3.0", {"c.x": "c.y"}))
    after, changes = migrated("c: {x: 1}\ne: [1,\n 2]\nf: 2\n", steps)
    assert yaml.safe_load(after) == {"c": {"y": 1}, "f": 2}
    assert [str(each) for each in changes] == ["line 2: e does nothing and is removed", "line 1: c.x is c.y now"]
    with pytest.raises(MigrationError, match=r"^line 1: b is c\.d now, and this text cannot be changed by a program"):
        migrated("a: 1\nc: {x: 1}\n", steps)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("swap: {watch: true}\nwatch_files: false\n", r"swap\.watch and watch_files are both given"),
        ("swap: &s\n  agree: 1\n  min_agreement: 2\n", r"swap\.agree and swap\.min_agreement are both given"),
        ("x: &f /run\nmqtt:\n  outbox:\n    folder: *f\n", "cannot be changed by a program: expected it to be moved"),
        ("x: &s {watch: true, keep: 1}\nswap:\n  <<: *s\n  agree: 1\n", None),
    ],
)
def test_what_a_program_cannot_change_is_said_or_left(text: str, reason: str | None) -> None:
    if reason is None:
        after, _ = migrated(text)
        assert yaml.safe_load(after)["swap"]["min_agreement"] == 1
    else:
        with pytest.raises(MigrationError, match=reason):
            migrated(text)
