"""The command `demo`."""

import json
import signal
import sys
from pathlib import Path

import click

from edgemeta.cli.completion import backend_words, model_names
from edgemeta.cli.demo.board import FPGA, FPGA_MODEL, backend_of_demo
from edgemeta.cli.demo.pixels import FrameOf, drawn, free_port, from_page
from edgemeta.cli.demo.run import run_demo, show_for
from edgemeta.cli.demo.service import DemoError
from edgemeta.cli.demo.view import LineView, QuietView, View
from edgemeta.cli.options import json_of, load_model
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.model.address import MARK
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Detection
from edgemeta.model.zoo import DEFAULT
from edgemeta.plugins.drawn.photographs import has_photographs

SECONDS = 30
DRAWN = "synthetic://"
PHOTOGRAPHS = "synthetic://?show=photographs"


@click.command(short_help="Watch it work, all on this machine.")
@click.option(
    "--seconds",
    type=click.IntRange(0, 86_400),
    default=SECONDS,
    show_default=True,
    metavar="N",
    help="How long to receive, from the first frame on; 0 is until Ctrl-C.",
)
@click.option(
    "--source",
    metavar="URL",
    help="Any source of the service: a clip, an image, a folder, a device number, rtsp://… Default: photographs that "
    "move, where the model finds objects, otherwise drawn scenes.",
)
@click.option(
    "--model",
    metavar="FILE",
    shell_complete=model_names,
    help="A model file, or the name of a shipped model; of any task: a detection's boxes are drawn.",
)
@click.option(
    "--page",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Also serve the live page at http://127.0.0.1:PORT/ while the demo runs.",
)
@click.option(
    "--backend",
    metavar="NAME",
    shell_complete=backend_words,
    help="What runs the model; fpga: a simulated board at a serial line, with a network that is made for it.",
)
@json_of(
    "source, seconds, received, frames_per_second, model, backend, availability (the last), counts of the "
    "service: captured, published (acknowledged by the broker), dropped; lost (published, not received: 0 "
    "unless there is an error), labels (how often each was the best; of a detection its objects), changes, "
    "recognition (frames, right, rate of each label shown; null where that is not known), latency_us (p50, p99 "
    "of each stage)"
)
def demo(
    seconds: int, source: str | None, model: str | None, page: int | None, backend: str | None, as_json: bool
) -> None:
    """Watch frames being classified and arriving over MQTT, all on this machine.

    Starts a broker on a free loopback port, the service with a synthetic camera, and a subscriber, and shows what it
    receives. Nothing is installed, and nothing remains. The camera shows photographs of the package scikit-image that
    move where the model finds objects, and drawn scenes to other models and without that package; the view says what.

    \b
    Examples:
      edgemeta demo
      edgemeta demo --seconds 0 --page 8480
      edgemeta demo --source clip.avi
      edgemeta demo --source clip.avi --model yolox.safetensors
      edgemeta demo --seconds 10 --json
      edgemeta demo --backend fpga
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: an orderly end with a summary
    if backend == FPGA and model is None:
        model = FPGA_MODEL
    loaded = load_model(DEFAULT if model is None else model)  # its errors name the file
    if source is None:
        source, remark = source_for(loaded)
        if remark:
            click.echo(f"edgemeta: {remark}", err=True)
    address = SourceAddress(source).beside(Path.cwd())
    if model is not None:
        place, mark, digest = model.partition(MARK)
        if Path(place).is_file():  # the service runs in another folder
            model = f"{Path(place).resolve()}{mark}{digest}"
    show, terminal = show_for(address), sys.stdout.isatty() and not as_json
    if show is None and page is None and terminal:
        page = free_port()  # the view gets frames from it that it cannot redraw
    view = choose_view(quiet=as_json, terminal=terminal, frame_of=drawn(show) if show else from_page(page or 0))
    with backend_of_demo(backend, loaded) as keys:
        tally = run_demo(address, seconds, view, page, model, keys)
    if as_json:
        click.echo(json.dumps({"source": str(SourceAddress(source)), **tally.summary()}))


def source_for(model: Model) -> tuple[str, str]:
    """The source to show a model with, and what is to be said about it."""
    if not isinstance(model.task, Detection):
        return DRAWN, ""
    if not has_photographs():
        return DRAWN, "drawn scenes are shown, for photographs install the extra: pip install 'edgemeta[demo]'"
    return PHOTOGRAPHS, ""


def choose_view(quiet: bool, terminal: bool, frame_of: FrameOf) -> View:
    """Return the view for standard output. Raises DemoError for a terminal if rich is not installed."""
    if quiet:
        return QuietView()
    if not terminal:
        return LineView()
    try:
        from edgemeta.cli.demo.screen import ScreenView
    except ImportError as error:
        raise DemoError(f"edgemeta demo needs the package rich ({error}): pip install 'edgemeta[demo]'") from error
    return ScreenView(frame_of)
