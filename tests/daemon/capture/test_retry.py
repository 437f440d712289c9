"""The delays between the attempts of a camera."""

from edgemeta.daemon.capture.retry import LATE_INITIAL, LATE_MAX, Retry, RetryDelays
from edgemeta.daemon.config.section import RetryConfig


def test_what_works_is_asked_at_once_only_if_it_has_run() -> None:
    delays = RetryDelays(RetryConfig(initial_delay=1, max_delay=2))
    for retry in (Retry.AT_ONCE, Retry.RESUME):
        assert delays.after(retry, ran=True) == 0
        assert delays.after(retry, ran=False) >= 0.5
    assert delays.after(Retry.SOON, ran=True) >= 1


def test_a_refused_login_is_no_flood() -> None:
    """Cameras lock an account after five to seven attempts."""
    delays = RetryDelays(RetryConfig())
    waits = [delays.after(Retry.LATE, ran=False) for _ in range(8)]
    assert LATE_INITIAL / 2 <= waits[0] < LATE_INITIAL
    assert max(waits) < LATE_MAX
    assert sum(waits[:4]) >= 450, "five attempts take at least 7.5 minutes"
    delays.reset()
    assert delays.after(Retry.LATE, ran=False) < LATE_INITIAL
