"""When a changed key takes effect: the mark of the key, of its section, or a restart."""

import pytest

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.reloading import Applies, applies


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("device", Applies.RESTART),
        ("watch_files", Applies.AT_ONCE),
        ("model", Applies.AFTER_SWAP),
        ("backend.options.threads", Applies.AFTER_SWAP),
        ("trust.public_key_files", Applies.AFTER_SWAP),
        ("swap.timeout", Applies.AT_ONCE),
        ("cameras", Applies.RESTART),
        ("cameras.front", Applies.RESTART),
        ("cameras.front.fps", Applies.CAMERA_REOPENS),
        ("cameras.front.retry.max_delay", Applies.CAMERA_REOPENS),
        ("cameras.front.model", Applies.AFTER_SWAP),
        ("cameras.front.region.left", Applies.CAMERA_REOPENS),
        ("cameras.front.tiles.columns", Applies.AT_ONCE),
        ("cameras.front.state", Applies.AT_ONCE),
        ("cameras.front.state.min_frames", Applies.AT_ONCE),
        ("cameras.front.publish.frames", Applies.AT_ONCE),
        ("cameras.model.fps", Applies.CAMERA_REOPENS),
        ("label_map.truck", Applies.AT_ONCE),
        ("mqtt.retry.max_delay", Applies.RESTART),
        ("homeassistant.enabled", Applies.AT_ONCE),
        ("homeassistant.discovery_prefix", Applies.RESTART),
        ("web.enabled", Applies.RESTART),
        ("stats.interval", Applies.AT_ONCE),
        ("log.level", Applies.AT_ONCE),
        ("unknown", Applies.RESTART),
        ("trust.unknown", Applies.AFTER_SWAP),
        ("the whole file", Applies.RESTART),
    ],
)
def test_when_a_change_applies(key: str, expected: Applies) -> None:
    assert applies(Config, key) is expected
