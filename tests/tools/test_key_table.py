"""The table of keys is the one that the records give."""

from edgemeta.daemon.config.config import Config
from edgemeta.model.zoo import DEFAULT
from tools.key_table import keys, table


def rows() -> dict[str, list[str]]:
    """The cells of each row, by key."""
    cells = [line.strip("| ").split(" | ") for line in table().splitlines() if line.startswith("| `")]
    return {name.strip("`"): rest for name, *rest in cells}


def test_rows_have_values_default_and_when_a_change_applies() -> None:
    found = {key: cells[:3] for key, cells in rows().items()}
    assert found["device"] == ["text", "host name", "restart"]
    assert found["model"] == ["text", f"`{DEFAULT}`", "after a swap"]
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
