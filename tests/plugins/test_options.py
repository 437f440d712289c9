"""Options are refused with the key, what was found and what was expected."""

import pytest

from edgemeta.plugins.api import BackendError
from edgemeta.plugins.options import choice, reject_unknown, whole_number


def test_unknown_options_are_refused() -> None:
    reject_unknown("cpu", {"threads": 1}, ("threads", "isa"))
    with pytest.raises(BackendError, match=r"backend cpu: unknown option 'thread', did you mean threads\?"):
        reject_unknown("cpu", {"thread": 1}, ("threads", "isa"))
    with pytest.raises(BackendError, match=r"unknown option 'x' \(known: none\)"):
        reject_unknown("reference", {"x": 1}, ())


@pytest.mark.parametrize("value", [0, 257, -1, 1.0, "2", True, None])
def test_whole_numbers_stay_in_their_range(value: object) -> None:
    assert whole_number("cpu", {}, "threads", 1, 1, 256) == 1
    assert whole_number("cpu", {"threads": 256}, "threads", 1, 1, 256) == 256
    with pytest.raises(BackendError, match=r"option threads is .*, expected a whole number from 1 to 256"):
        whole_number("cpu", {"threads": value}, "threads", 1, 1, 256)


@pytest.mark.parametrize("value", ["AVX2", "", 1, None])
def test_choices_are_limited_to_the_list(value: object) -> None:
    assert choice("cpu", {}, "isa", "auto", ("auto", "avx2")) == "auto"
    with pytest.raises(BackendError, match=r"option isa is .*, expected one of auto, avx2"):
        choice("cpu", {"isa": value}, "isa", "auto", ("auto", "avx2"))
