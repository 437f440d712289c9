"""Delays between attempts: doubled up to a cap, and reset."""

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.runtime.backoff import Backoff


@given(first=st.floats(0.001, 10), factor=st.floats(1, 1000))
def test_delays_double_up_to_the_maximum_and_reset(first: float, factor: float) -> None:
    cap = first * factor
    backoff = Backoff(first, cap)
    for failures in range(2000):
        longest = min(cap, first * 2.0 ** min(failures, 32))
        assert longest / 2 <= backoff.next() <= longest
    backoff.reset()
    assert backoff.next() <= first
