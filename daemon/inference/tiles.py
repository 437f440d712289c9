"""How a camera's picture is cut into tiles, and where the model's input lies in each of them."""

from edgemeta.daemon.config.camera import TilesConfig
from edgemeta.daemon.inference.readers.reading import Picture
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle, placement
from edgemeta.tasks.tiles import cut


def picture_of(model: Model, frame_shape: tuple[int, ...], tiles: TilesConfig) -> Picture:
    """The picture of a frame of this shape, [H, W, 3] or [H, W], cut into tiles of one size.

    Raises FrameError if it has fewer rows or columns than tiles.
    """
    height, width = frame_shape[:2]
    if height < tiles.rows or width < tiles.columns:
        raise FrameError(
            f"a frame of {width} x {height} pixels cannot be cut into {tiles.columns} x {tiles.rows} tiles"
        )
    parts = cut(Rectangle(0, 0, height, width), tiles.rows, tiles.columns, tiles.overlap)
    where = placement(model.preprocessing, model.input, (parts[0].height, parts[0].width))
    return Picture(height, width, parts, (where,) * len(parts))
