"""Completion in the shell: the protocol as bash speaks it, and files wherever a path is expected."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgemeta.cli.main import edgemeta
from edgemeta.model.zoo import float_names, names
from tools.option_table import commands

PROGRAM = Path(sys.executable).with_name("edgemeta")
PATHS = ("PATH", "FILE", "DIR", "FOLDER", "IMAGE...", "MODEL", "[MODEL]", "[MODEL]...", "FLOAT", "CONFIG")


def answer(*words: str) -> list[str]:
    """What completes the last word: lines of type and word."""
    environment = {
        "_EDGEMETA_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("edgemeta", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = CliRunner().invoke(edgemeta, env=environment)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("eval", "resnet8"), (*names(), *float_names())),
        (("verify", "resnet8"), names()),
        (("predict", "resnet8"), names()),
        (("model", "sign", "resnet8"), names()),
        (("quantize", "resnet8"), float_names()),
        (("teach", "pictures", "--backbone", "resnet8"), names()),
    ],
)
def test_names_of_shipped_models(words: tuple[str, ...], offered: tuple[str, ...]) -> None:
    begun = [name for name in offered if name.startswith(words[-1])]
    assert 0 < len(begun) < len(names()) + len(float_names())
    assert answer(*words) == [f"file,{words[-1]}", *(f"plain,{name}" for name in begun)]


def test_backends_and_options() -> None:
    assert answer("bench", "resnet8-cifar10", "--backend", "r") == ["plain,reference"]
    assert "plain,--held-out" in answer("quantize", "--h")
    assert answer("eval", "./mine") == ["file,./mine"]


def parameters() -> list[tuple[str, click.Command, click.Parameter]]:
    return [
        (words, command, parameter)
        for words, command in commands()
        for parameter in command.params
        if parameter.metavar in PATHS or (parameter.name or "").endswith(("path", "file"))
    ]


@pytest.mark.parametrize(
    ("command", "parameter"),
    [pytest.param(each[1], each[2], id=f"{each[0]} {each[2].name}") for each in parameters()],
)
def test_files_are_offered_for_every_path(command: click.Command, parameter: click.Parameter) -> None:
    """Where a command completes nothing, the shell does not fall back to files."""
    offered = parameter.shell_complete(click.Context(command), "some/")
    assert [item.type for item in offered] in (["file"], ["dir"])


def test_the_script_for_bash_completes_a_name() -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = (
        'eval "$(_EDGEMETA_COMPLETE=bash_source edgemeta)"; compopt() { :; }\n'
        "COMP_WORDS=(edgemeta verify resnet8-cifar10-); COMP_CWORD=2\n"
        'complete -p edgemeta | grep -q _edgemeta_completion && _edgemeta_completion edgemeta && echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [name for name in names() if name.startswith("resnet8-cifar10-")], done.stderr
