"""How long acknowledgements may take before messages are written to disk."""

import pytest

from edgemeta.daemon.mqtt.outbox.patience import FIRST_NS, LEAST_NS, MOST_NS, Patience
from edgemeta.daemon.runtime.clock import NS


def test_it_is_twice_the_smoothed_time_and_four_times_its_deviation() -> None:
    patience = Patience()
    assert patience.ns == FIRST_NS
    patience.measured(NS)
    assert patience.ns == 4 * NS  # 2 * 1 s + 4 * 0.5 s
    patience.measured(2 * NS)
    assert patience.ns == int((2 * 1.125 + 4 * 0.625) * NS)


@pytest.mark.parametrize(
    ("took", "patience_ns"), [(NS // 1000, LEAST_NS), (3 * NS // 10, 6 * NS // 10), (60 * NS, MOST_NS)]
)
def test_it_settles_within_its_limits(took: int, patience_ns: int) -> None:
    patience = Patience()
    for _ in range(200):
        patience.measured(took)
    assert patience.ns == pytest.approx(patience_ns, rel=1e-3)
