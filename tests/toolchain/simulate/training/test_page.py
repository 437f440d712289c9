"""The curves of a run and the page around them."""

import re
from collections.abc import Callable
from pathlib import Path

from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.simulate.training.config import load_config
from edgemeta.toolchain.simulate.training.page import write_page


def test_curves_and_page_are_complete(tmp_path: Path, write_config: Callable[..., Path]) -> None:
    config, log = load_config(write_config(loss_scale="dynamic")), tmp_path / "log.jsonl"
    write_page(tmp_path, log, config)
    assert not (tmp_path / "curves.html").exists()
    reporter = Reporter(log, None)
    for epoch in (1, 2, 3):
        reporter.report("training", epoch, 3, step=4, steps=4, loss=1 / epoch, accuracy=60.0 + epoch)
    write_page(tmp_path, log, config)
    page = (tmp_path / "curves.html").read_text("utf-8")
    for text in ("Epoch 3 of 3.", "<svg", "int8_per_channel", "flexfp8_e5m2_shared", "dynamic", "stochastic"):
        assert text in page
    assert not re.search(r"""(href|src)=.http|url\(.?http""", page), "the page needs something else"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
