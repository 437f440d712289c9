"""Config of a camera's picture: what is made of it before anything else sees it."""

from typing import Annotated

from pydantic import Field

from edgemeta.daemon.config.objects import Polygon, Share
from edgemeta.daemon.config.section import Section

MOST_POLYGONS = 32
Polygons = Annotated[list[Polygon], Field(max_length=MOST_POLYGONS)]


class CircleConfig(Section):
    """The circle that a fisheye lens shows."""

    x: Share = Field(default=0.5, description="Its middle, as a fraction of the picture's width.")
    y: Share = Field(default=0.5, description="The same of the picture's height.")
    radius: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.5, description="Its radius, as a fraction of the picture's shorter side."
    )
