"""Labels become names of folders and texts in messages, so few of them are refused, but those always."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.labels import LONGEST, RULE, checked_label


@pytest.mark.parametrize(
    "text", ["open", "gate open", "Tür zu", "門が開いている", "50 %", "a.b", "🚗", "unknown", "con"]
)
def test_ordinary_labels_stay_as_they_are(text: str) -> None:
    assert checked_label(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "..", "...", ".hidden", "end.", "../x", "a/b", "/etc", "a\\b", "C:", "a\0b", "a\nb", "\t"),
        *("\u202eabc", "a\u200bb", "\ud800", "a" * (LONGEST + 1), "a" * 200, "*", "what?", '"x"', "<x>", "a|b"),
    ],
)
def test_others_are_refused_with_the_rule(text: str) -> None:
    with pytest.raises(CollectError) as caught:
        checked_label(text)
    assert RULE in str(caught.value)
    assert str(caught.value).isprintable()


def test_both_ways_to_write_a_letter_are_one_label() -> None:
    decomposed = unicodedata.normalize("NFD", "Tür")
    assert decomposed != "Tür"
    assert checked_label(decomposed, ["Tür"]) == "Tür"


def test_blanks_at_the_ends_do_not_count() -> None:
    assert checked_label(" gate open ") == "gate open"


@pytest.mark.parametrize(("text", "existing"), [("Open", "open"), ("STRASSE", "straße"), ("ÄRGER", "ärger")])
def test_a_label_that_differs_only_in_case_is_refused(text: str, existing: str) -> None:
    with pytest.raises(CollectError, match="only in case"):
        checked_label(text, ["other", existing])
    assert checked_label(existing, [existing]) == existing


@given(st.text(max_size=80))
def test_whatever_is_accepted_is_one_folder_in_the_folder(text: str) -> None:
    try:
        label = checked_label(text)
    except CollectError:
        return
    assert (Path("/pictures") / label).parent == Path("/pictures")
    assert (Path("/pictures") / label).name == label
    assert len(label.encode()) <= 255
    assert label == checked_label(label)
