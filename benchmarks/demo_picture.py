"""Write the picture of the running demo that the documents show.

    python benchmarks/demo_picture.py

Runs the demo for one round of its scenes, as `edgemeta demo` does, and writes its last screen to docs/images/demo.svg.
"""

import io
import re
from pathlib import Path
from types import TracebackType

from rich.console import Console

from edgemeta.cli.demo.command import SECONDS, SOURCE
from edgemeta.cli.demo.pixels import drawn
from edgemeta.cli.demo.run import run_demo, show_for
from edgemeta.cli.demo.screen import SMALLEST, screen
from edgemeta.cli.demo.tally import Tally
from edgemeta.cli.demo.view import View

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
FONTS = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
FONT_SIZE, LINE_HEIGHT = 20, 24.4
"""Of rich's SVG, in its units: a line's box begins FONT_SIZE - 1.5 above the baseline."""

HALF_BLOCK = re.compile(r'<text class="(\S+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"[^>]*>▀+</text>')


class Photographer(View):
    """Draws like the terminal's view, into a file, and keeps the last screen as SVG."""

    def __init__(self) -> None:
        show = show_for(SOURCE)
        assert show is not None
        self._frame_of = drawn(show)
        self.svg = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def show(self, tally: Tally, last: bool = False) -> None:
        """Take the picture when it is over."""
        if last:
            console = Console(
                file=io.StringIO(), record=True, width=SMALLEST.width, color_system="truecolor", force_terminal=True
            )
            assert tally.frame is not None
            console.print(screen(tally, self._frame_of(tally.frame), "time is up"))
            self.svg = console.export_svg(title="edgemeta demo", unique_id="demo")

    def interrupted(self) -> None:
        """Continue; the picture is written anyway."""


def _upper_half(text: re.Match[str]) -> str:
    """Draw the upper pixels as rectangles: half blocks leave seams in many fonts."""
    style, x, baseline, length = text.groups()
    top = float(baseline) - FONT_SIZE + 1.5
    return f'<rect class="{style}" x="{x}" y="{top:g}" width="{float(length) + 0.25:g}" height="{LINE_HEIGHT / 2:g}"/>'


def main() -> None:
    """Run the demo and write the picture, which loads no font from elsewhere."""
    photographer = Photographer()
    tally = run_demo(SOURCE, SECONDS, photographer)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", photographer.svg, flags=re.DOTALL)
    svg = HALF_BLOCK.sub(_upper_half, svg)
    svg = re.sub(r"font-family: (Fira Code, monospace|arial)", f"font-family: {FONTS}", svg)
    PICTURE.parent.mkdir(exist_ok=True)
    temporary = PICTURE.with_suffix(".part")
    temporary.write_text(svg, encoding="utf-8")
    temporary.replace(PICTURE)
    print(f"{PICTURE.name}: {tally.frames} frame messages, {tally.dropped} dropped")


if __name__ == "__main__":
    main()
