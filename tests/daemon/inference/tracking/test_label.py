"""When a state changes: agreement, thresholds with hysteresis, holding, and that it never flaps against its rule."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.inference.tracking.label import Change, Rule, Smoother, Unknown

UNKNOWN = Unknown.UNKNOWN


def states(rule: Rule, frames: list[tuple[str, float]], every_ns: int = 1) -> list[str | None]:
    smoother = Smoother(rule)
    seen = []
    for number, (label, score) in enumerate(frames, 1):
        smoother.add(label, score, number * every_ns)
        seen.append(smoother.state)
    return seen


def test_a_label_needs_enough_frames() -> None:
    frames = [("a", 1.0), ("b", 1.0), ("a", 1.0), ("a", 1.0), ("b", 1.0), ("b", 1.0), ("b", 1.0)]
    assert states(Rule(3, 5), frames) == [None, None, None, "a", "a", "b", "b"]


def test_a_frame_below_the_threshold_votes_for_no_label() -> None:
    frames = [("a", 0.9), ("a", 0.9), ("b", 0.3), ("a", 0.49), ("a", 0.9), ("a", 0.9)]
    assert states(Rule(2, 2, enter=0.5, leave=0.5), frames) == [None, "a", "a", None, None, "a"]


def test_the_state_is_left_later_than_it_is_entered() -> None:
    """0.6 is enough to stay, not enough to become."""
    frames = [("a", 0.6), ("a", 0.6), ("a", 0.8), ("a", 0.8), ("a", 0.6), ("a", 0.6), ("a", 0.5), ("a", 0.5)]
    rule = Rule(2, 2, enter=0.7, leave=0.55)
    assert states(rule, frames) == [None, None, None, "a", "a", "a", "a", None]
    assert states(rule, [("a", 0.8)] * 2 + [("b", 0.6)] * 2) == [None, "a", "a", None]


def test_a_state_is_held_and_then_gives_way() -> None:
    frames = [("a", 1.0), ("b", 1.0), ("b", 1.0), ("b", 1.0), ("b", 1.0)]
    assert states(Rule(1, 1, hold_ns=30), frames, every_ns=10) == ["a", "a", "a", "b", "b"]


def test_changes_give_the_previous_state_and_how_long_it_lasted() -> None:
    smoother = Smoother(Rule(1, 1, enter=0.5))
    changes = [smoother.add(*frame) for frame in (("a", 0.2, 5), ("a", 0.9, 7), ("a", 0.9, 8), ("b", 0.9, 11))]
    assert changes == [Change(None, None), Change(None, 2), None, Change("a", 4)]


def test_a_full_window_without_agreement_gives_the_state_null() -> None:
    smoother = Smoother(Rule(2, 3))
    changes = [smoother.add(label, 1.0, at) for at, label in enumerate("abcd", 1)]
    assert changes == [None, None, Change(None, None), None]
    assert (smoother.known, smoother.state) == (True, None)


def test_another_rule_keeps_the_state_and_the_newest_frames() -> None:
    smoother = Smoother(Rule(3, 5))
    for at, label in enumerate("aaabb", 1):
        smoother.add(label, 1.0, at)
    smoother.set_rule(Rule(2, 2))
    assert smoother.state == "a"
    assert smoother.add("b", 1.0, 6) == Change("a", 3)


frames_of_three = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=60)


@given(frames_of_three, st.integers(1, 6), st.integers(0, 5), st.floats(0, 1), st.floats(0, 1), st.integers(0, 20))
def test_every_change_has_its_majority_and_every_state_its_time(
    frames: list[tuple[str, float]], agree: int, more: int, one: float, other: float, hold: int
) -> None:
    """Votes are recounted from all frames, by the definition of the rule."""
    rule = Rule(agree, agree + min(more, agree - 1), max(one, other), min(one, other), hold)
    smoother = Smoother(rule)
    votes: list[str | None] = []
    entered = 0
    for at, (label, score) in enumerate(frames, 1):
        before, known = smoother.state, smoother.known
        votes.append(label if score >= (rule.leave if label == before else rule.enter) else None)
        change = smoother.add(label, score, at)
        count = Counter(votes[-rule.window :])
        if change is None:
            assert smoother.state == before
            majority = count[votes[-1]] >= rule.agree and votes[-1] != before
            assert not majority or (known and at - entered < rule.hold_ns)
            continue
        assert count[smoother.state] >= rule.agree or (not known and smoother.state is None and at == rule.window)
        assert not known or at - entered >= rule.hold_ns
        assert (change.previous, change.lasted_ns) == (before, at - entered if known else None)
        entered = at


def test_unknown_is_a_state_of_its_own() -> None:
    smoother = Smoother(Rule(2, 3, enter=0.5))
    votes = [("a", 0.9), ("a", 0.9), (UNKNOWN, 0.0), (UNKNOWN, 0.0), ("a", 0.1), ("a", 0.2), ("a", 0.9), ("a", 0.9)]
    states = []
    for number, (best, score) in enumerate(votes):
        smoother.add(best, score, number)
        states.append(smoother.state)
    assert states == [None, "a", "a", UNKNOWN, UNKNOWN, None, None, "a"]
