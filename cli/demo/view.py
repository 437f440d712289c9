"""Output of the demo without a screen: nothing for --json, plain lines for a pipe."""

import time
from collections import Counter
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import click

from edgemeta.cli.demo.tally import Tally, found_in, outputs_in
from edgemeta.daemon.messages.records import FrameMessage


class View(AbstractContextManager["View"], Protocol):
    """Shows a tally; entered when the demo starts, left when it ends."""

    def show(self, tally: Tally, last: bool = False) -> None:
        """Show the tally, unless it was shown just before; `last` is always shown, with a summary."""
        ...

    def interrupted(self) -> None:
        """Record that the user stops the demo; `show(last=True)` follows."""
        ...


class QuietView(View):
    """Shows nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def show(self, tally: Tally, last: bool = False) -> None:
        """Show nothing."""

    def interrupted(self) -> None:
        """Show nothing."""


class LineView(QuietView):
    """One line of text a second, one for each change of state, and a summary."""

    PERIOD_S = 1.0

    def __init__(self) -> None:
        self._next = 0.0
        self._changes = 0

    def show(self, tally: Tally, last: bool = False) -> None:
        """Print a line, or the summary."""
        if tally.event is not None and tally.changes > self._changes:
            self._changes = tally.changes
            click.echo(f"event {tally.event.sequence:6d}  {tally.change}")
        if last:
            for line in summary_lines(tally):
                click.echo(line)
        elif tally.frame is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + self.PERIOD_S
            truth = f" (shown: {tally.truth(tally.frame.sequence)})" if tally.truth else ""
            median, _ = tally.percentiles("delivered", newest=100)
            click.echo(
                f"frame {tally.frame.sequence:6d}  {_description(tally.frame)}{truth}  "
                f"{tally.rate:.1f} frames/s  {median / 1000:.1f} ms"
            )


def _description(frame: FrameMessage) -> str:
    if frame.embedding is not None:
        return f"vector of {len(frame.embedding)} numbers"
    if frame.keypoints is not None:
        return f"{len(frame.keypoints)} points"
    if frame.outputs is not None:
        return "; ".join(outputs_in(frame))
    named = found_in(frame)
    if frame.objects is None:
        return f"{named[0].label} {named[0].score:.1%}" if named else "unknown" if frame.unknown else "no label"
    counted = Counter(each.label for each in named).most_common(3)
    return ", ".join(f"{number} {label}" for label, number in counted) or "no objects"


def summary_lines(tally: Tally) -> list[str]:
    """Return a summary in plain text, at most 80 columns wide."""
    lines = [f"{tally.frames} frame messages in {tally.seconds:.1f} s, {tally.dropped} frames dropped by the service"]
    has_objects = tally.frame is not None and tally.frame.objects is not None
    lines.append(f"{tally.changes} {'events of objects' if has_objects else 'changes of state'}")
    if tally.info is not None and tally.frame is not None:
        lines.append(f"model {tally.info.model.name} ({tally.info.model.sha256[:12]}) on backend {tally.frame.backend}")
    for stage in tally.stages():
        p50, p99 = tally.percentiles(stage)
        lines.append(f"{stage:12s} p50 {p50:7d} us   p99 {p99:7d} us")
    if tally.truth is None:
        lines += [
            f"{label:12s} {count:6d} {'objects' if has_objects else 'frames'}"
            for label, count in tally.labels.most_common()
        ]
    else:
        lines += [
            f"{label:12s} {tally.right[label]:6d} of {count} frames {'with it' if has_objects else 'named right'} "
            f"({tally.recognized(label):.1%})"
            for label, count in tally.shown.items()
        ]
    return lines
