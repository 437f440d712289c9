"""Topics of a device."""

from edgemeta.daemon.messages.channels import FRAME, STATS, Topics


def test_topics() -> None:
    topics = Topics("site/a", "dev")
    assert topics.of(STATS) == "site/a/dev/stats"
    assert topics.of(FRAME, "door") == "site/a/dev/door/frame"
