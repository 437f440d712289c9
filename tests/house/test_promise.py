"""What was promised at the last release still holds."""

from tools.promise import differences, released, surface


def test_the_code_keeps_the_promise_of_the_last_release() -> None:
    """A removed, renamed or retyped thing, another default, or a new required one: see docs/stability.md."""
    version, before = released()
    assert list(differences(before, surface())) == [], f"promised by {version}"
