"""Failures of the connection: counts, waits, and a second client with the same client id."""

import pytest

from edgemeta.daemon.config.broker import BrokerRetryConfig
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.failures import SHORT_LIVED, STEADY_AFTER, FailureTracker
from edgemeta.daemon.mqtt.state import SLOW_RETRY, LinkError

CAP = 64.0


def tracker() -> FailureTracker:
    return FailureTracker(BrokerRetryConfig(initial_delay=1.0, max_delay=CAP), "host:1883", "gate")


def failure(state: BrokerState) -> LinkError:
    return LinkError(state, f"it is {state.value}", may_be_taken_over=state is BrokerState.LOST)


def test_failures_are_counted_by_kind_and_the_last_one_is_described() -> None:
    failures = tracker()
    assert failures.last is None
    for state in (BrokerState.UNREACHABLE, BrokerState.UNREACHABLE, BrokerState.REFUSED):
        failures.add(failure(state), None)
    assert (failures.counts.unreachable, failures.counts.refused, failures.counts.lost) == (2, 1, 0)
    assert failures.last == "it is refused"


def test_waits_double_up_to_the_cap() -> None:
    failures = tracker()
    longest = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, CAP, CAP]
    for most in longest:
        _, delay = failures.add(failure(BrokerState.UNREACHABLE), None)
        assert most / 2 <= delay < most


@pytest.mark.parametrize("state", sorted(SLOW_RETRY))
def test_after_an_error_that_a_retry_does_not_cure_the_wait_is_long_at_once(state: BrokerState) -> None:
    _, delay = tracker().add(failure(state), None)
    assert CAP / 2 <= delay < CAP


def test_after_a_steady_connection_the_waits_start_again() -> None:
    failures = tracker()
    for _ in range(5):
        failures.add(failure(BrokerState.UNREACHABLE), None)
    _, delay = failures.add(failure(BrokerState.LOST), STEADY_AFTER + 1)
    assert delay < 1.0


def test_after_a_connection_without_acknowledgements_they_do_not() -> None:
    failures = tracker()
    delays = [failures.add(failure(BrokerState.UNACKNOWLEDGED), 0.0)[1] for _ in range(6)]
    assert delays[-1] >= 16.0


def test_short_lived_connections_in_a_row_mean_another_client_with_our_id() -> None:
    failures = tracker()
    for number in range(1, SHORT_LIVED + 2):
        found, delay = failures.add(failure(BrokerState.LOST), 0.1)
        assert (found.state is BrokerState.CLIENT_ID_TAKEN) == (number >= SHORT_LIVED)
    assert "another client probably uses the client id 'gate', too" in str(found)
    before, (found, _) = str(found), failures.add(failure(BrokerState.LOST), 0.1)
    assert str(found) == before, "a number that grows would be a new line in the log each time"
    assert delay >= CAP / 2
    assert (failures.counts.lost, failures.counts.client_id_taken) == (SHORT_LIVED - 1, 3)
    assert failures.last == str(found)


@pytest.mark.parametrize(
    ("between", "lasted"),
    [
        (BrokerState.UNREACHABLE, None),  # it refused a connection, as a broker that restarts does
        (BrokerState.LOST, STEADY_AFTER + 1),
        (BrokerState.UNACKNOWLEDGED, 0.0),
    ],
)
def test_another_failure_between_them_starts_the_count_again(between: BrokerState, lasted: float | None) -> None:
    failures = tracker()
    for _ in range(3):
        for _ in range(SHORT_LIVED - 1):
            found, _ = failures.add(failure(BrokerState.LOST), 0.1)
            assert found.state is BrokerState.LOST
        failures.add(failure(between), lasted)


def test_losses_with_another_explanation_are_not_taken_for_another_client() -> None:
    failures = tracker()
    for _ in range(3 * SHORT_LIVED):
        found, _ = failures.add(LinkError(BrokerState.LOST, "packet too large"), 0.1)
        assert found.state is BrokerState.LOST


def test_a_connection_that_is_used_differently_comes_soon() -> None:
    failures = tracker()
    for _ in range(6):
        _, delay = failures.add(LinkError(BrokerState.LOST, "closed after a message"), 0.1, differs=True)
        assert delay < 1.0
