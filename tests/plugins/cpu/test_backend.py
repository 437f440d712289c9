"""Sessions of the cpu backend: options, life cycle, batches of any size."""

import ctypes
import gc
import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cpu import library
from edgemeta.kernels.cpu.library import best_isa, supported_isas
from edgemeta.model import reference
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.cpu.backend import BACKEND
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import Case

ISAS = supported_isas()


def test_the_probe_names_the_instruction_set() -> None:
    probe = BACKEND.probe()
    assert probe.available
    assert best_isa() in probe.reason


@pytest.mark.parametrize("isa", ISAS)
def test_a_forced_instruction_set_is_used(resnet8: Case, isa: str) -> None:
    with closing(BACKEND.compile(resnet8.model, {"isa": isa})) as session:
        assert session.isa == isa


def test_auto_selects_the_best(resnet8: Case) -> None:
    with closing(BACKEND.compile(resnet8.model, {})) as session:
        assert session.isa == best_isa()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"isa": "sse"},
            "option isa is 'sse', expected one of auto, portable, avx2, avxvnni, avx512vnni, neon, dotprod, i8mm",
        ),
        ({"threads": 0}, "option threads is 0, expected a whole number from 1 to 256"),
        ({"cores": 2}, "unknown option 'cores'"),
    ],
)
def test_wrong_options_are_refused(resnet8: Case, options: dict[str, object], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        BACKEND.compile(resnet8.model, options)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_of_any_size_and_order(resnet8: Case, threads: int) -> None:
    kind = resnet8.model.input
    images = np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (17, *kind.shape)).astype(kind.dtype)
    expected = reference.run(resnet8.model, images)[0]
    with closing(BACKEND.compile(resnet8.model, {"threads": threads})) as session:
        for size in (1, 2, 7, 17, 3, 1, 1, 16):
            np.testing.assert_array_equal(session.run(images[:size])[0], expected[:size], strict=True)
            np.testing.assert_array_equal(session.run(images[17 - size :])[0], expected[17 - size :], strict=True)


def test_an_input_changed_in_place_is_used(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    with closing(BACKEND.compile(resnet8.model, {})) as session:
        before = session.run(image)[0].copy()
        image[0, 3:20] = resnet8.model.input.hi
        np.testing.assert_array_equal(session.run(image)[0], reference.run(resnet8.model, image)[0], strict=True)
        assert (before != session.run(image)[0]).any()


def test_repeated_runs_give_the_same_array(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    with closing(BACKEND.compile(resnet8.model, {"threads": 2})) as session:
        first = session.run(image)[0]
        expected = first.copy()
        for _ in range(200):
            assert session.run(image)[0] is first
            np.testing.assert_array_equal(first, expected)


def test_wrong_batches_are_refused(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    wrong = [image[0], image[:0], image[:, :, :16], image.view(np.uint8), image.astype(np.int32), image[:, ::-1]]
    with closing(BACKEND.compile(resnet8.model, {})) as session:
        for batch in wrong:
            with pytest.raises(BackendError, match=r"backend cpu: the batch is .*, expected C-contiguous int8"):
                session.run(batch)
            with pytest.raises(BackendError, match="the batch is"):
                session.profile(batch)


def test_a_profile_needs_one_image(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    with closing(BACKEND.compile(resnet8.model, {"threads": 2})) as session:
        steps = session.profile(image)
        assert list(steps)[-1].startswith("dense")
        assert all(microseconds >= 0 for microseconds in steps.values())
        with pytest.raises(BackendError, match="a profile takes one image, the batch has 2"):
            session.profile(np.concatenate([image, image]))


def test_a_closed_session_refuses_to_run(resnet8: Case) -> None:
    image = random_image(resnet8.model)
    session = BACKEND.compile(resnet8.model, {"threads": 2})
    session.run(image)
    session.close()
    session.close()
    for batch in (image, None):
        with pytest.raises(BackendError, match="backend cpu: the session is closed"):
            session.run(batch)  # type: ignore[arg-type]


@pytest.mark.gate("3 s of processor time: hundreds of sessions")
def test_opening_and_closing_frees_all_memory(resnet8: Case) -> None:
    image = random_image(resnet8.model)

    def cycle(times: int) -> int:
        for _ in range(times):
            with closing(BACKEND.compile(resnet8.model, {"threads": 2})) as session:
                session.run(image)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return resident_bytes()

    before = cycle(50)
    after = cycle(200)
    assert after - before < 1 << 20, "a session's weights and arena are some 300 KB: 200 leaked ones would be 60 MB"


def test_without_its_library_the_backend_is_not_available(resnet8: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMETA_CPU_LIBRARY", "/nowhere/libedgemeta_cpu.so")
    library.library.cache_clear()
    try:
        probe = BACKEND.probe()
        assert not probe.available
        assert "/nowhere/libedgemeta_cpu.so is missing" in probe.reason
        with pytest.raises(BackendError, match="is missing: reinstall the package"):
            BACKEND.compile(resnet8.model, {})
    finally:
        library.library.cache_clear()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
