"""The registry is what it says it is: every entry has a fixed address, settings that exist, and one line of words."""

from pathlib import Path

import pytest

from edgemeta.cli.import_settings import ImportSettings
from edgemeta.model.errors import KnownNetworkError
from edgemeta.model.known.registry import RANGES, REGISTRY, known_network, known_networks
from edgemeta.toolchain.quantize.recorded import Record

ENTRY = REGISTRY.read_text("utf-8").split("\n\n")[1]


@pytest.mark.parametrize("name", known_networks())
def test_the_settings_of_an_entry_are_those_of_import(name: str) -> None:
    settings = ImportSettings.model_validate(known_network(name).settings)
    assert settings.name is None
    assert (settings.labels is None) == (known_network(name).labels is not None)


def test_each_record_is_of_an_entry() -> None:
    named = {each.recorded.path for each in known_networks().values() if each.recorded is not None}
    assert named == set(RANGES.iterdir())
    assert all(Record.load(path).tensors for path in named)


def test_no_entry_is_an_update_of_itself_or_of_another() -> None:
    present = [each.made().digest for each in known_networks().values()]
    earlier = [digest for each in known_networks().values() for digest in each.earlier]
    assert len({*present, *earlier}) == len(present) + len(earlier)


def test_a_name_that_is_not_there_gets_near_ones() -> None:
    with pytest.raises(KnownNetworkError, match="no known network 'yolox-nanno', expected yolox-nano"):
        known_network("yolox-nanno")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("1afd2c9820f795965a6134facd0b4dfae41ef23f", "main", "file.address: String should match pattern"),
        ("https://", "http://", "file.address: String should match pattern"),
        ("Apache-2.0", "CC-BY-NC-4.0", "licence: Input should be"),
        ("gives: integer", "gives: int8", "gives: Input should be"),
        ("  settings:", "  setings:", "setings: there is no such entry"),
        ('digest: "', 'digest: "0', "digest: String should match pattern"),
    ],
)
def test_an_entry_that_is_wrong_is_named(old: str, new: str, reason: str, tmp_path: Path) -> None:
    assert old in ENTRY
    (tmp_path / "networks.yaml").write_text(ENTRY.replace(old, new, 1))
    with pytest.raises(KnownNetworkError, match=rf"networks\.yaml line \d+: visual-wake-words\.{reason}"):
        known_networks(tmp_path / "networks.yaml")
