"""Parts that the acceptance programs need."""

import pytest

from rig.broker import Mosquitto


@pytest.fixture
def mosquitto() -> None:
    """A broker is at hand; the programs start it themselves."""
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
