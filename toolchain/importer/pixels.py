"""What a network takes for a pixel."""

from dataclasses import dataclass

from edgemeta.model.graph import Align, Crop

IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""Mean and deviation of its photographs: red, green, blue."""


@dataclass(frozen=True)
class Pixels:
    """What the network takes for a pixel 0 .. 255: (pixel - mean) / deviation.

    mean, deviation: one number, or one for each channel. colour, crop, fill, align: how a frame becomes the image
    (`edgemeta.model.graph.Preprocessing`).
    """

    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    colour: str = "rgb"
    crop: Crop = "center"
    fill: tuple[int, ...] = (0,)
    align: Align = "center"

    def text(self) -> str:
        """For people, as the options that say it."""
        numbers = [",".join(f"{each:g}" for each in given) for given in (self.mean, self.deviation)]
        beside = f" --align {self.align} --fill {','.join(map(str, self.fill))}" if self.crop == "letterbox" else ""
        return f"--colour {self.colour} --mean {numbers[0]} --std {numbers[1]} --crop {self.crop}{beside}"
