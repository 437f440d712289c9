"""The generated documents are what the code generates."""

from pathlib import Path

from tools.documents import differing


def test_all_generated_documents_are_in_step(repository: Path) -> None:
    """Where they are not: python -m tools.documents."""
    assert differing(repository) == []
