"""The reader of frames against whatever a line can bring: any splitting, noise before, between and inside frames."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.plugins.fpga.serial_frames import (
    ANSWER,
    GREETING,
    OVERHEAD,
    REFUSAL,
    Frame,
    FrameReader,
    Greeting,
    encode,
    from_board,
    seed_of,
)

DIGEST = bytes(range(1, 33))
SEED = seed_of(DIGEST)
LENGTHS = {ANSWER: 12, GREETING: 42, REFUSAL: 0}


def written(frame: Frame) -> bytes:
    return encode(frame, SEED if frame.kind == ANSWER else 0)


def read(pieces: list[bytes]) -> tuple[list[Frame], FrameReader]:
    reader = FrameReader(from_board(LENGTHS[ANSWER], DIGEST))
    return [frame for piece in pieces for frame in reader.feed(piece)], reader


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    kind = draw(st.sampled_from(list(LENGTHS)))
    return Frame(kind, draw(st.integers(0, 255)), draw(st.binary(min_size=LENGTHS[kind], max_size=LENGTHS[kind])))


# Noise that likes to look like the beginning of a frame.
NOISE = st.lists(st.sampled_from([b"E", b"D", b"G", b"EDG", b"EDGA", b"EDGN\0\0", b"\0", b"\xff"]), max_size=6).map(
    b"".join
) | st.binary(max_size=30)


def test_a_frame_byte_for_byte() -> None:
    covered = b"\x07\x02\x00\x00\x00ab"
    seed = 0x04030201
    assert seed == SEED
    sent = encode(Frame(ANSWER, 7, b"ab"), SEED)
    assert sent == b"EDGA" + covered + zlib.crc32(covered, seed).to_bytes(4, "little")
    assert len(sent) == OVERHEAD + 2


@given(st.lists(frames(), max_size=4), st.integers(1, 70))
def test_frames_are_found_in_pieces_of_any_size(sent: list[Frame], size: int) -> None:
    stream = b"".join(map(written, sent))
    found, reader = read([stream[at : at + size] for at in range(0, len(stream), size)])
    assert found == sent
    assert (reader.lost, reader.waiting) == (0, 0)


@given(st.lists(st.tuples(NOISE, frames()), min_size=1, max_size=4))
def test_noise_between_frames_loses_nothing_but_itself(sent: list[tuple[bytes, Frame]]) -> None:
    found, reader = read([noise + written(frame) for noise, frame in sent])
    tail, _ = read([b"".join(noise + written(frame) for noise, frame in sent)])
    assert found == tail == [frame for _, frame in sent]
    assert reader.lost == sum(len(noise) for noise, _ in sent)


@given(frames(), frames(), st.data())
def test_a_damaged_frame_is_none_and_the_next_one_is_found(first: Frame, second: Frame, data: st.DataObject) -> None:
    stream = bytearray(written(first))
    how = data.draw(st.sampled_from(["flip", "drop", "cut"]))
    at = data.draw(st.integers(0, len(stream) - 1))
    if how == "flip":
        stream[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "drop":
        del stream[at]
    else:
        del stream[at:]
    found, reader = read([bytes(stream) + written(second) + bytes(2 * OVERHEAD + 42)])
    assert found == [second]
    assert reader.lost >= len(stream)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception_and_none_waits_for_more_than_a_frame(noise: bytes) -> None:
    _, reader = read([noise])
    assert reader.waiting < OVERHEAD + 42


def test_an_answer_for_another_model_is_no_frame() -> None:
    sent = encode(Frame(ANSWER, 0, bytes(12)), seed_of(b"another model"))
    assert read([sent])[0] == []


def test_a_board_of_another_version_is_refused() -> None:
    payload = bytes([2, 2]) + bytes(40)
    with pytest.raises(FpgaError, match=r"^the board speaks version 2 of the frames, expected 1$"):
        Greeting.of(payload)
