"""Charts by matplotlib (extra `train`): lines, dots by row and histograms by row, as SVG for a page and as PNG."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.atomic_write import atomic_file
from edgemeta.toolchain.errors import MissingExtraError, ToolchainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 760, 420
"""Size of a chart in pixels; charts by row are as high as their rows need."""
_AROUND_ROWS = 90
_DPI = 96
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
_MARKED = 8
"""A line through so few points shows which were measured."""
_BINS = 120


def require_matplotlib() -> None:
    """Raise MissingExtraError without matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "a chart needs matplotlib, which is not installed: pip install edgemeta[train]"
        ) from error


@dataclass(frozen=True)
class Chart:
    """What is drawn on one pair of axes. Its methods raise MissingExtraError without matplotlib."""

    title: str
    x_label: str

    @property
    def height(self) -> int:
        """In pixels."""
        return HEIGHT

    def svg(self) -> str:
        """An `<svg>` element, the same for the same chart."""
        figure, text = self._figure(), io.StringIO()
        from matplotlib import rc_context

        with rc_context({"svg.hashsalt": "edgemeta", "svg.fonttype": "none"}):
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": self.title})
        return text.getvalue()[text.getvalue().index("<svg") :]

    def save_png(self, path: Path) -> None:
        """Write a PNG, whole or not at all. Raises ToolchainError if it cannot be written."""
        figure = self._figure()
        try:
            with atomic_file(path) as file:
                figure.savefig(file, format="png", dpi=_DPI)
        except OSError as error:
            raise ToolchainError(f"{path}: cannot be written ({error.strerror})") from None

    def _figure(self) -> "Figure":
        require_matplotlib()
        from matplotlib.figure import Figure

        figure = Figure((WIDTH / _DPI, self.height / _DPI), layout="constrained")
        figure.suptitle(self.title, fontsize="medium")
        axes = figure.add_subplot(xlabel=self.x_label)
        axes.set_prop_cycle(color=_COLOURS)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd")
        axes.set_axisbelow(True)
        self._draw(axes)
        return figure

    def _draw(self, axes: "Axes") -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Series:
    """A named line through points (x, y); those that are not finite are left out."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines over one pair of axes. limits: least and greatest y; None: those of the points."""

    y_label: str
    series: Sequence[Series]
    limits: tuple[float, float] | None = None

    def _draw(self, axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        for each in self.series:
            x, y = np.array(each.points, float).reshape(-1, 2).T
            kept = np.isfinite(y)
            axes.plot(x[kept], y[kept], marker="o" if kept.sum() <= _MARKED else "", label=each.name)
        axes.set(ylabel=self.y_label, ylim=self.limits)
        for number, axis in enumerate((axes.xaxis, axes.yaxis)):
            whole = all(float(point[number]).is_integer() for each in self.series for point in each.points)
            axis.set_major_locator(MaxNLocator("auto", integer=whole, steps=[1, 2, 5, 10]))
        longest = max((len(each.name) for each in self.series), default=0)
        figure = axes.get_figure(root=True)
        if figure is not None and self.series:
            figure.legend(loc="outside lower center", ncols=max(1, 100 // (longest + 10)), frameon=False)


@dataclass(frozen=True)
class _RowChart(Chart):
    """A row for each of what is compared, from top to bottom."""

    rows: Mapping[str, Any]
    row_height: ClassVar[int] = 24

    @property
    def height(self) -> int:
        """In pixels."""
        return _AROUND_ROWS + self.row_height * len(self.rows)

    def _label(self, axes: "Axes", names: Sequence[str]) -> None:
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)


@dataclass(frozen=True)
class DotChart(_RowChart):
    """rows: values by name; a dot for each, a stroke at their mean."""

    rows: Mapping[str, Sequence[float]]

    def _draw(self, axes: "Axes") -> None:
        self._label(axes, list(self.rows))
        for number, values in enumerate(self.rows.values()):
            axes.plot(values, [number] * len(values), "o", color=_COLOURS[0])
            axes.plot([mean(values)], [number], "|", color="#333333", markersize=14, markeredgewidth=2)


@dataclass(frozen=True)
class EvidenceChart(_RowChart):
    """rows: evidence [N] of each kind of images, the first one known: a histogram each, and the threshold.

    Evidence beyond the middle 98 percent of all is drawn at the border.
    """

    rows: Mapping[str, NDArray[np.integer[Any]]]
    threshold: int
    row_height: ClassVar[int] = 46

    def _draw(self, axes: "Axes") -> None:
        low, high = np.percentile(np.concatenate(list(self.rows.values())), (1, 99))
        low, high = min(low, self.threshold - 1), max(high, self.threshold + 1)
        names = [f"{name[-30:]}  {(each >= self.threshold).mean():.1%}" for name, each in self.rows.items()]
        self._label(axes, names)
        for number, evidence in enumerate(self.rows.values()):
            counts, borders = np.histogram(np.clip(evidence, low, high), _BINS, (low, high))
            ground = number + 0.4
            heights = ground - 0.8 * counts / max(1, counts.max())
            axes.stairs(heights, borders, baseline=ground, fill=True, color=_COLOURS[min(number, 1)])
        axes.axvline(self.threshold, color="#c80000")
