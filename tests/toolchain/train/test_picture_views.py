"""Random views and blends: their ranges, their geometry, their targets."""

import numpy as np
import torch

from edgemeta.toolchain.train.picture_views import ViewSettings, blend, random_views

STILL = ViewSettings(least_area=1.0, aspect=1.0, turn=0.0, brightness=0.0, contrast=0.0, saturation=0.0)


def test_the_whole_picture_or_its_mirror_image() -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (16, 24, 24, 3)).astype(np.uint8)
    views = random_views(pixels, 24, STILL, np.random.default_rng(2))
    assert views.shape == (16, 3, 24, 24)
    assert views.is_contiguous(memory_format=torch.channels_last)
    plain = torch.from_numpy((pixels.transpose(0, 3, 1, 2).astype(np.float32) - 128) / 128)
    same = [torch.allclose(a, b, atol=1e-4) for a, b in zip(views, plain, strict=True)]
    mirrored = [torch.allclose(a, b.flip(2), atol=1e-4) for a, b in zip(views, plain, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert 3 <= sum(same) <= 13


def test_a_crop_shows_what_lies_in_the_picture() -> None:
    """Pixels that tell their place: a crop keeps the slope of a ramp, times its scale, and stays inside."""
    ramp = np.linspace(10, 240, 48)[None, None, :, None].repeat(48, 1).repeat(3, 3).repeat(64, 0)
    settings = ViewSettings(least_area=0.25, aspect=1.2, turn=0.0, brightness=0.0, contrast=0.0, saturation=0.0)
    views = random_views(ramp.astype(np.uint8), 24, settings, np.random.default_rng(3)) * 128 + 128
    assert float(views.min()) >= 9
    assert float(views.max()) <= 241
    widths = (views[:, 0, 12, -1] - views[:, 0, 12, 0]).abs() / (230 * 23 / 24)
    assert 0.4 < float(widths.min()) < 0.6
    assert 0.85 < float(widths.max()) < 1.05
    assert torch.allclose(views[:, :, 3], views[:, :, 20], atol=0.01)  # no turn: rows are alike


def test_the_same_generator_gives_the_same_views_within_the_range() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 32, 32, 3)).astype(np.uint8)
    one, same, other = (random_views(pixels, 24, ViewSettings(), np.random.default_rng(n)) for n in (5, 5, 6))
    assert (one == same).all()
    assert (one != other).any()
    assert -1 <= float(one.min()) < float(one.max()) <= 1


def test_colours_change_as_a_whole() -> None:
    gray = np.full((64, 24, 24, 3), 128, np.uint8)
    settings = ViewSettings(1.0, 1.0, 0.0, brightness=0.2, contrast=0.3, saturation=0.3)
    views = random_views(gray, 24, settings, np.random.default_rng(1))
    assert float((views - views.mean((1, 2, 3), keepdim=True)).abs().max()) < 1e-5
    levels = views.mean((1, 2, 3))
    assert -0.41 < float(levels.min()) < -0.3
    assert 0.3 < float(levels.max()) < 0.41


def test_a_blends_target_is_what_it_shows() -> None:
    """Pictures of one value each: the share of each in the blend is its share of the target."""
    values = torch.linspace(-1, 1, 8)
    seen = set()
    for seed in range(20):
        x = values[:, None, None, None].expand(8, 3, 20, 20).clone()
        mixed, target = blend(x, torch.eye(8), 0.8, np.random.default_rng(seed))
        assert torch.allclose(target.sum(1), torch.ones(8))
        assert torch.allclose(mixed.mean((1, 2, 3)), target @ values, atol=1e-5)
        seen.add(bool((mixed[:, :, :1, :1] == mixed).all()))
    assert seen == {True, False}  # both ways occur
