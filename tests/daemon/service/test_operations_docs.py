"""Every word that a status can say has its meaning in docs/operations.md."""

from pathlib import Path

import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState, Drops
from edgemeta.daemon.messages.swaps import SwapResult

WORDS = [*(state.value for state in CameraState), *(state.value for state in BrokerState), *Drops.model_fields]


@pytest.mark.parametrize("word", WORDS)
def test_every_status_word_is_explained(repository: Path, word: str) -> None:
    text = (repository / "docs" / "operations.md").read_text("utf-8")
    assert f"`{word}`" in text.partition("\n## Status values\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("result", [result.value for result in SwapResult])
def test_every_end_of_a_swap_is_explained(repository: Path, result: str) -> None:
    text = (repository / "docs" / "operations.md").read_text("utf-8")
    assert f"| `{result}` |" in text.partition("\n### Swap the model\n")[2].partition("\n### ")[0]
