"""The examples in the documents about models give the results shown there."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize("page", ["integer-semantics.md", "model-file.md"])
def test_examples_of_the_page(repository: Path, page: str) -> None:
    results = doctest.testfile(str(repository / "docs" / page), module_relative=False, encoding="utf-8")
    assert results.attempted > 5
    assert results.failed == 0
