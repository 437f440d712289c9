"""The table of keys in docs/configuration.md is the one that the records give."""

import subprocess
import sys
from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.key_table import keys, replaced, table


def rows() -> dict[str, list[str]]:
    """The cells of each row, by key."""
    cells = [line.strip("| ").split(" | ") for line in table().splitlines() if line.startswith("| `")]
    return {name.strip("`"): rest for name, *rest in cells}


def test_the_page_has_the_table_of_the_records(repository: Path) -> None:
    """Where it has not: python -m edgemeta.daemon.config.key_table docs/configuration.md."""
    page = (repository / "docs" / "configuration.md").read_text("utf-8")
    assert page == replaced(page)


def test_the_command_writes_the_table_and_leaves_the_rest_of_the_page(tmp_path: Path, repository: Path) -> None:
    page = (repository / "docs" / "configuration.md").read_text("utf-8")
    (tmp_path / "page.md").write_text(page.replace("| `top_k` |", "| `top_n` |"), "utf-8")
    command = [sys.executable, "-m", "edgemeta.daemon.config.key_table", str(tmp_path / "page.md")]
    subprocess.run(command, check=True)
    assert (tmp_path / "page.md").read_text("utf-8") == page


def test_rows_have_values_default_and_when_a_change_applies() -> None:
    found = {key: cells[:3] for key, cells in rows().items()}
    assert found["device"] == ["text", "host name", "restart"]
    assert found["model"] == ["text", "`resnet8-cifar10`", "after a swap"]
    assert found["cameras"] == ["mapping", "required", "restart"]
    assert found["cameras.<name>.source"] == ["text", "required", "camera reopens"]
    assert found["cameras.<name>.region.left"] == ["number, at least 0, below 1", "`0`", "camera reopens"]
    assert found["cameras.<name>.state"] == ["mapping or null", "`null`", "at once"]
    assert found["state.min_duration"] == ["number, 0 to 3600", "`0`", "at once"]
    assert found["mqtt.version"] == ["`5` or `3.1.1`", "`5`", "restart"]
    assert found["mqtt.message_expiry_interval"] == ["whole number, 1 to 4294967295 or null", "`86400`", "restart"]
    assert found["mqtt.retry.max_delay"] == ["number, above 0, at most 3600", "`60`", "restart"]
    assert found["homeassistant.enabled"] == ["true or false or null", "`null`", "at once"]


def test_every_key_and_every_section_has_a_meaning() -> None:
    assert all(key.field.description for key in keys())
    assert all(field.description for field in Config.model_fields.values())
