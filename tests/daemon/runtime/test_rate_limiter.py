"""The rate limiter against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.runtime.rate_limiter import RateLimiter


@given(rate=st.integers(1, 10_000), idle=st.integers(0, 10**10), count=st.integers(1, 500))
def test_the_rate_is_kept_after_any_idle_time(rate: int, idle: int, count: int) -> None:
    """Over any time t no more than rate · (t + 20 ms) + 1 are let through; and no fewer than rate · t when asked."""
    limiter = RateLimiter(rate)
    limiter.take(10**10)
    start = now = 10**10 + idle
    for _ in range(count):
        now += limiter.wait_ns(now)
        assert limiter.wait_ns(now) == 0
        limiter.take(now)
    assert count <= rate * (now - start + 2 * 10**7) / 10**9 + 2
    assert count >= rate * (now - start) / 10**9 - 1
