"""The demo on a terminal of 80 columns or more, drawn with rich; imported only for a terminal."""

import time
from dataclasses import dataclass
from types import TracebackType

import cv2
import numpy as np
from rich.color import Color
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from edgemeta.cli.demo.pixels import DemoPicture, FrameOf
from edgemeta.cli.demo.tally import Tally, found_in, is_classification, outputs_in, present_in
from edgemeta.cli.demo.view import View
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.messages.records import CameraState
from edgemeta.model.preprocess import crop_rectangle, resize_area

PERIOD_S = 0.15
NEWEST = 300
"""Number of frames over which the latencies are computed."""

COLOURS = ((80, 220, 100), (255, 150, 60), (90, 160, 255), (240, 90, 200), (250, 220, 70), (80, 220, 220))
"""RGB, for labels in turn."""


@dataclass(frozen=True)
class Layout:
    """Layout of the screen, in characters.

    frame_side: side of the frame, whose pixels are half a character high. rows: of the frame and of what is beside it.
    """

    width: int
    frame_side: int
    bar: int
    columns: int
    rows: int

    @property
    def picture(self) -> tuple[int, int]:
        """Width and height in pixels within which a picture with boxes fits."""
        return self.width - 44, 2 * self.rows

    @staticmethod
    def of(width: int, height: int) -> "Layout":
        """For a terminal of this size: at least 80 columns and 24 rows; more than 140 columns are not used."""
        width = min(max(width, 80), 140)
        frame_side = min(max(2 * (height - 8), 32), 64, width - 48) & ~1
        return Layout(width, frame_side, 14 + width - 80 - (frame_side - 32), (width - 4) // 25, max(height - 8, 16))


SMALLEST = Layout.of(80, 24)


class ScreenView(View):
    """The newest frame as the model gets it, its labels, and the latency of each stage."""

    def __init__(self, frame_of: FrameOf, console: Console | None = None) -> None:
        self._console = console or Console()
        self._frame_of = frame_of if self._console.color_system else None  # without colours a frame cannot be drawn
        self._picture: DemoPicture | None = None
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._next = 0.0
        self._ended = ""

    def __enter__(self) -> "ScreenView":
        self._live.start()
        self._live.update(Text("starting the broker, a subscriber and the service …", style="dim"), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, tally: Tally, last: bool = False) -> None:
        """Redraw the screen, at most every PERIOD_S seconds."""
        if last and not self._ended:
            self._ended = "time is up"
        if tally.frame is not None and (last or time.monotonic() >= self._next):
            if self._frame_of is not None:
                self._picture = self._frame_of(tally.frame) or self._picture
            layout = Layout.of(self._console.width, self._console.height)
            self._live.update(screen(tally, self._picture, self._ended, layout), refresh=True)
            self._next = time.monotonic() + PERIOD_S

    def interrupted(self) -> None:
        """Record that the user pressed Ctrl-C."""
        self._ended = "stopped by you"


def screen(tally: Tally, picture: DemoPicture | None, ended: str, layout: Layout = SMALLEST) -> RenderableType:
    """Lay the screen out, on the smallest terminal 80 columns and with ten labels 23 rows; the tally has a frame."""
    assert tally.frame is not None
    show_found = _verdict if is_classification(tally.frame) else _found
    facts: list[RenderableType] = [show_found(tally, layout), Text(), _latencies(tally)]
    body = Table.grid(padding=(0, 3, 0, 0))
    if picture is None:
        body.add_row(Group(*facts))
    else:
        has_boxes = tally.frame.objects is not None
        pixels = with_boxes(picture, *layout.picture) if has_boxes else _middle(picture.pixels, layout.frame_side)
        body.add_column(width=pixels.shape[1])
        body.add_row(_half_blocks(pixels), Group(*facts))
    counts = _recognition(tally, layout) if tally.truth is not None else _labels(tally, layout)
    return Panel(
        Group(_headline(tally), body, counts),
        title="[bold]edgemeta demo[/]",
        subtitle=f"[dim]{tally.frames} received, {tally.dropped} dropped; {ended or 'Ctrl-C ends it'}[/]",
        border_style="cyan",
        width=layout.width,
    )


def _headline(tally: Tally) -> Text:
    assert tally.frame is not None
    model = tally.frame.model
    line = Text.assemble(
        (model.name, "bold"),
        (f" {model.sha256[:8]}", "dim"),
        " on ",
        (tally.frame.backend, "bold"),
        (f"  {tally.rate:5.1f} frames/s", "cyan"),
    )
    if tally.status is not None and tally.status.status is CameraState.FAILED:
        line.append(f"\ncamera: {tally.status.reason}", "red")
    return line


def _verdict(tally: Tally, layout: Layout) -> RenderableType:
    """Show the true label, and the model's labels with their scores."""
    assert tally.frame is not None
    table = Table.grid(padding=(0, 1))
    table.add_column(width=12, no_wrap=True)
    table.add_column(width=layout.bar)
    table.add_column(width=7, justify="right")
    truth = tally.truth(tally.frame.sequence) if tally.truth else None
    for rank, label in enumerate(tally.frame.labels):
        right = truth is None or label.label == truth
        colour = ("green" if right else "red") if rank == 0 else "bright_black"
        table.add_row(
            Text(label.label, style=f"bold {colour}" if rank == 0 else ""),
            Text("━" * round(label.score * layout.bar), style=colour),
            f"{label.score:.1%}",
        )
    if tally.frame.unknown:
        table.add_row(Text("unknown", style="bold yellow" if truth is None else "bold red"))
    state = Text.assemble("state  ", (tally.frame.state or "—", "bold"))
    change = Text(f"event  {tally.change or '—'}", style="dim", overflow="ellipsis", no_wrap=True)
    if truth is None:
        return Group(table, state, change)
    mark = "✓" if [each.label for each in tally.frame.labels[:1]] == [truth] else "✗"
    return Group(Text.assemble("drawn  ", (truth, "bold"), f"  {mark}"), table, state, change)


def _found(tally: Tally, layout: Layout) -> RenderableType:
    """Show the objects or labels of a frame with their scores, and what is present over several frames."""
    assert tally.frame is not None
    frame = tally.frame
    if frame.embedding is not None:
        return Text(f"a vector of {len(frame.embedding)} numbers")
    if frame.keypoints is not None:
        return Text(f"{len(frame.keypoints)} points")
    if frame.outputs is not None:
        return Text("\n".join(outputs_in(frame)))
    table = Table.grid(padding=(0, 1))
    table.add_column(width=14, no_wrap=True)
    table.add_column(width=10)
    table.add_column(width=6, justify="right")
    shown = found_in(frame)[: layout.rows - 11]  # beside: present, event, and the latencies with two lines of their own
    for each in shown:
        style = Style(color=Color.from_rgb(*colour_of(each.label)))
        bar = Text("━" * round(10 * each.score), style=style)
        table.add_row(Text(each.label, style=style), bar, f"{each.score:.0%}")
    present = Text(f"present  {present_in(frame) or '—'}", style="bold", overflow="ellipsis", no_wrap=True)
    event = Text(f"event  {tally.change or '—'}", style="dim", overflow="ellipsis", no_wrap=True)
    facts: list[RenderableType] = [table if shown else Text("nothing in this frame", style="dim"), present, event]
    if tally.truth is not None:
        truth = tally.truth(frame.sequence)
        mark = "✓" if truth in [each.label for each in found_in(frame)] else "✗"
        facts.insert(0, Text.assemble("shown  ", (truth, "bold"), f"  {mark}"))
    return Group(*facts)


def _latencies(tally: Tally) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim")
    table.add_column("stage", width=14)
    table.add_column("p50 µs", width=9, justify="right")
    table.add_column("p99 µs", width=9, justify="right")
    for stage in tally.stages():
        p50, p99 = tally.percentiles(stage, newest=NEWEST)
        table.add_row(stage, f"{p50:,}", f"{p99:,}", style="bold" if stage == "inference" else "")
    return table


def _recognition(tally: Tally, layout: Layout) -> Table:
    """Show how often each label was recognized."""
    cells = [(label, tally.recognized(label), f"{tally.recognized(label):.0%}") for label in tally.shown]
    return _in_columns(cells, layout)


def _labels(tally: Tally, layout: Layout) -> Table:
    """Show the number of frames of each label, or of its objects in all frames."""
    newest = tally.labels.most_common(4 * SMALLEST.columns)
    return _in_columns([(label, min(1.0, count / tally.frames), f"{count}") for label, count in newest], layout)


def _in_columns(cells: list[tuple[str, float, str]], layout: Layout) -> Table:
    """Arrange label, share and number in columns, row by row."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for _ in range(layout.columns):
        table.add_column(width=10, no_wrap=True)
        table.add_column(width=7)
        table.add_column(width=5, justify="right")
    for left in range(0, len(cells), layout.columns):
        row: list[RenderableType] = []
        for label, share, number in cells[left : left + layout.columns]:
            row += [label, Text("━" * round(share * 7), style="green" if share >= 0.8 else "yellow"), number]
        table.add_row(*row)
    return table


def _middle(frame: Pixels, side: int) -> Pixels:
    """A frame's middle square, RGB."""
    region = crop_rectangle((frame.shape[0], frame.shape[1]), (side, side), "center")
    cropped = frame[region.top : region.top + region.height, region.left : region.left + region.width]
    return np.asarray(cv2.cvtColor(resize_area(cropped, side, side), cv2.COLOR_BGR2RGB), np.uint8)


def _half_blocks(pixels: Pixels) -> Segments:
    """RGB pixels, two to a character: above as its colour, below as its ground."""
    colours = [[Color.from_rgb(*pixel) for pixel in row] for row in pixels.tolist()]
    segments: list[Segment] = []
    for upper, lower in zip(colours[0::2], colours[1::2], strict=True):
        segments += [Segment("▀", Style.from_color(*pair)) for pair in zip(upper, lower, strict=True)]
        segments.append(Segment.line())
    return Segments(segments)


def colour_of(label: str) -> tuple[int, int, int]:
    """Return the colour of a label, always the same."""
    return COLOURS[sum(map(ord, label)) % len(COLOURS)]


def with_boxes(picture: DemoPicture, width: int, height: int) -> Pixels:
    """Return the whole picture, RGB, as large as fits into width x height pixels, an even number high, with its boxes.

    The outline of a box is one pixel wide and lies on the pixels of its edges; worse objects are drawn first. The mask
    of an object is drawn by its outline, its keypoints as points that are white.
    """
    scale = min(width / picture.pixels.shape[1], height / picture.pixels.shape[0])
    wide = max(1, round(scale * picture.pixels.shape[1]))
    high = max(2, 2 * round(scale * picture.pixels.shape[0] / 2))
    drawn = cv2.cvtColor(resize_area(picture.pixels, high, wide), cv2.COLOR_BGR2RGB)
    for each in reversed(picture.objects):
        left, top, right, bottom = each.box_relative
        corner = int(left * wide), int(top * high)
        opposite = max(corner[0], round(right * wide) - 1), max(corner[1], round(bottom * high) - 1)
        cv2.rectangle(drawn, corner, opposite, colour_of(each.label), 1)
        corners = [(min(int(x * wide), wide - 1), min(int(y * high), high - 1)) for x, y in each.outline_relative or ()]
        if corners:
            cv2.polylines(drawn, [np.array(corners, np.int32)], True, colour_of(each.label), 1)
        for x, y in (point.point_relative for point in each.keypoints or () if point.is_seen):
            drawn[min(int(y * high), high - 1), min(int(x * wide), wide - 1)] = 255
    return np.asarray(drawn, np.uint8)
