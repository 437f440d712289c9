"""Who keeps a promise is well; who does not, hangs."""

import math

from edgemeta.daemon.runtime.heartbeat import Pulse


def test_a_promise_kept_or_renewed_is_no_trouble() -> None:
    pulse = Pulse("camera front")
    assert pulse.trouble is None
    pulse.promise("reading a frame", -3)
    assert pulse.trouble == "camera front hangs: reading a frame, 3 s late"
    pulse.promise("reading a frame", 60)
    assert pulse.trouble is None
    pulse.promise("reading a frame", -1)
    pulse.rest()
    assert pulse.trouble is None


def test_what_is_owed_stands_until_it_is_paid() -> None:
    pulse = Pulse("worker")
    pulse.owe("a frame", -1)
    pulse.owe("a frame", math.inf)
    assert pulse.trouble is not None
    pulse.rest()
    pulse.owe("a frame", 60)
    assert pulse.trouble is None
