"""Images as a camera: every kind of file, including invalid ones."""

import zlib
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.source import SourceEnded, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.image import ImageSource, read_image
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.source_address import SourceAddress

PIXELS = np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)


def write(path: Path, pixels: np.ndarray) -> Path:  # type: ignore[type-arg]
    assert cv2.imwrite(str(path), pixels)
    return path


def test_colour_png_is_exact(tmp_path: Path) -> None:
    assert np.array_equal(read_image(write(tmp_path / "a.png", PIXELS)), PIXELS)


def test_one_pixel(tmp_path: Path) -> None:
    assert read_image(write(tmp_path / "a.png", PIXELS[:1, :1])).shape == (1, 1, 3)


def test_gray_png_becomes_three_equal_channels(tmp_path: Path) -> None:
    gray = PIXELS[:, :, 0]
    assert np.array_equal(read_image(write(tmp_path / "a.png", gray)), np.repeat(gray[:, :, np.newaxis], 3, axis=2))


def test_sixteen_bit_png_becomes_eight_bit(tmp_path: Path) -> None:
    deep = PIXELS.astype(np.uint16) * 256
    assert np.array_equal(read_image(write(tmp_path / "a.png", deep)), PIXELS)


def test_transparency_is_dropped(tmp_path: Path) -> None:
    four = np.dstack([PIXELS, np.full((24, 32), 128, np.uint8)])
    assert np.array_equal(read_image(write(tmp_path / "a.png", four)), PIXELS)


def test_palette_png(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra `test`)")
    palette = image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8), mode=None)
    palette = palette.convert("P")
    palette.putpalette([channel for value in range(256) for channel in (value, 255 - value, 7)])
    palette.save(tmp_path / "a.png")
    pixels = read_image(tmp_path / "a.png")
    indices = np.asarray(palette)
    assert np.array_equal(pixels, np.dstack([np.full_like(indices, 7), 255 - indices, indices]))


def test_a_truncated_jpeg_is_refused_at_every_length(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.jpg", PIXELS).read_bytes()
    cut = tmp_path / "cut.jpg"
    for length in range(2, len(whole) - 1, 37):
        cut.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=rf"cut\.jpg is a JPEG truncated after {length} bytes"):
            read_image(cut)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "is empty"), (b"some text\n", "cannot be decoded, expected JPEG, PNG or the like")]
)
def test_invalid_images_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(SourceError, match=rf"image .*a\.png {reason}"):
        read_image(tmp_path / "a.png")


def test_a_truncated_png_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.png", PIXELS).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"cut\.png"):
        read_image(tmp_path / "cut.png")


def test_an_image_that_claims_to_be_huge_is_refused(tmp_path: Path) -> None:
    whole = bytearray(write(tmp_path / "a.png", PIXELS).read_bytes())
    whole[16:24] = (0x7FFF_FFFF).to_bytes(4, "big") * 2
    whole[29:33] = zlib.crc32(whole[12:29]).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(whole)
    with pytest.raises(SourceError, match="cannot be decoded"):
        read_image(tmp_path / "a.png")


@given(
    content=st.binary(max_size=200),
    magic=st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"II*\0"]),
)
def test_any_bytes_are_an_image_or_a_source_error(
    tmp_path_factory: pytest.TempPathFactory, magic: bytes, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a"
    path.write_bytes(magic + content)
    with suppress(SourceError):
        assert read_image(path).ndim == 3


def test_a_single_image_is_delivered_once_or_repeatedly(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", PIXELS)
    once = make_source(SourceSpec(SourceAddress(str(path))))
    assert isinstance(once, ImageSource)
    once.open()
    once.read()
    with pytest.raises(SourceEnded):
        once.read()
    spaced = write(tmp_path / "a b.png", PIXELS)
    coded = make_source(SourceSpec(SourceAddress(f"file://{tmp_path}/a%20b.png")))
    coded.open()
    assert np.array_equal(coded.read().pixels, read_image(spaced))
    looped = make_source(SourceSpec(SourceAddress(f"image://{path}"), fps=4.0, loop=True))
    looped.open()
    assert looped.interval_ns == 250_000_000
    for _ in range(3):
        assert np.array_equal(looped.read().pixels, PIXELS)


def test_a_folder_is_delivered_in_the_order_of_names(colours: Path) -> None:
    (colours / "notes.txt").write_text("no image")
    source = make_source(SourceSpec(SourceAddress(str(colours))))
    source.open()
    assert [source.read().pixels[0, 0].tolist() for _ in range(3)] == [[0, 0, 255], [0, 255, 0], [255, 0, 0]]
    with pytest.raises(SourceEnded):
        source.read()


def test_an_invalid_image_in_a_folder_is_reported_and_skipped(colours: Path) -> None:
    (colours / "1.png").write_bytes(b"broken")
    source = make_source(SourceSpec(SourceAddress(str(colours))))
    source.open()
    assert source.read().pixels[0, 0].tolist() == [0, 0, 255]
    with pytest.raises(SourceError, match=r"1\.png cannot be decoded"):
        source.read()
    source.close()
    source.open()
    assert source.read().pixels[0, 0].tolist() == [255, 0, 0]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist, expected an image or a folder of images"):
        make_source(SourceSpec(SourceAddress(str(tmp_path / "gone.png")))).open()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="empty has no images"):
        make_source(SourceSpec(SourceAddress(str(tmp_path / "empty")))).open()
