"""Rows of an outbox file: what is a message, whatever a damaged file holds."""

import pytest

from edgemeta.daemon.mqtt.outbox.rows import checksum, whole

ROW = (7, b"boot", 1, None, b"site/front/frame", 1, b"{}")


def test_a_row_with_its_checksum_is_whole() -> None:
    assert whole(ROW, checksum(ROW)) == ROW
    assert whole(ROW, None) == ROW
    assert whole(ROW, checksum(ROW) ^ 1) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, "7"), (1, b"\x81"), (1, "boot"), (2, None), (3, b"1"), (4, b""), (4, b"\x81"), (4, b"a/#"), (5, 2), (6, "{}")],
    ids=str,
)
def test_a_row_without_a_checksum_is_whole_only_if_its_columns_make_a_message(column: int, value: object) -> None:
    """A file that has lost its checksums, or of an older version: no column may end the service."""
    row = (*ROW[:column], value, *ROW[column + 1 :])
    assert whole(row, None) is None
