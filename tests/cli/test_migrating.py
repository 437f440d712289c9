"""`edgemeta config migrate`: a diff, or the file and a backup with owner and mode; mistakes that remain are said."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemeta.cli.main import edgemeta
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.config.migrate import MigrationError

OLD = "cameras:\n  front:\n    source: synthetic://  # drawn\nswap:\n  agree: 0.5\n"
NEW = OLD.replace("agree", "min_agreement")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(OLD)
    path.chmod(0o640)
    return path


def run(*words: object) -> str:
    result = CliRunner().invoke(edgemeta, ["config", "migrate", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_without_write_it_shows_a_diff_and_changes_nothing(old: Path) -> None:
    lines = run(old).splitlines()
    assert [line for line in lines if line.startswith(("-  ", "+  "))] == ["-  agree: 0.5", "+  min_agreement: 0.5"]
    assert lines[-1] == f"{old}: not changed, without --write"
    assert (old.read_text(), list(old.parent.iterdir())) == (OLD, [old])


def test_with_write_it_keeps_mode_and_a_backup_and_follows_a_link(old: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(old)
    answer = json.loads(run("--write", "--json", link))
    assert answer == {"changes": [{"line": 5, "former": "swap.agree", "new": "swap.min_agreement"}], "written": True}
    assert link.is_symlink()
    assert (old.read_text(), old.stat().st_mode & 0o777) == (NEW, 0o640)
    backup = old.with_name("config.yaml.before-migration")
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == (OLD, 0o640)
    assert "nothing to migrate" in run("--write", old)
    assert run("--json", old).strip() == '{"changes": [], "written": false}'


def test_an_earlier_backup_is_not_overwritten(old: Path) -> None:
    backup = old.with_name("config.yaml.before-migration")
    backup.write_text("precious")
    result = CliRunner().invoke(edgemeta, ["config", "migrate", "--write", str(old)])
    assert result.exit_code == 1
    assert "exists, expected no backup of an earlier migration" in result.output
    assert (old.read_text(), backup.read_text()) == (OLD, "precious")


def test_mistakes_that_remain_are_said_with_the_nearest_key(old: Path) -> None:
    old.write_text(OLD + "  shadow_frame: 3\n")
    with pytest.raises(ConfigError, match=r"config.yaml:6: swap.shadow_frame: found an unknown key, expected `shadow_"):
        CliRunner().invoke(edgemeta, ["config", "migrate", "--write", str(old)], catch_exceptions=False)
    assert old.read_text() == NEW + "  shadow_frame: 3\n"


def test_a_key_that_is_given_by_both_names_is_named_with_the_file(old: Path) -> None:
    old.write_text(OLD + "  min_agreement: 0.6\n")
    with pytest.raises(MigrationError, match=r"config.yaml: line 5: swap.agree and swap.min_agreement are both given"):
        CliRunner().invoke(edgemeta, ["config", "migrate", str(old)], catch_exceptions=False)
    assert MigrationError.exit_code == ConfigError.exit_code
