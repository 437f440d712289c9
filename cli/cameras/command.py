"""`cameras`: the cameras of the network that speak ONVIF, their streams, and what to write into a config."""

import re
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from edgemeta.cli.cameras.errors import OnvifError
from edgemeta.cli.options import json_of, report
from edgemeta.daemon.config.secrets import password_of

ENOUGH = 640
"""Width of a picture that suffices most detections: the least such stream is the one to take."""


@dataclass(frozen=True)
class _Login:
    """A login as the keys of a config name it."""

    username: str | None
    password_file: str | None
    password_env: str | None
    username_file: None = None
    username_env: None = None
    password: None = None


@click.command(short_help="Find the cameras of the network (ONVIF) and their streams.")
@click.option("--host", metavar="HOST[:PORT]", help="Ask this camera only, instead of the whole network.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=4.0,
    show_default=True,
    help="How long answers are awaited; five times as long for the streams of a camera.",
)
@click.option("--username", metavar="NAME", help="One of the cameras' ONVIF users, to ask for their streams.")
@click.option("--password-file", type=click.Path(), metavar="FILE", help="File whose first line is the password.")
@click.option("--password-env", metavar="VARIABLE", help="Environment variable that holds the password.")
@json_of("cameras (host, port, name, hardware, error, streams)")
def cameras(
    host: str | None,
    seconds: float,
    username: str | None,
    password_file: str | None,
    password_env: str | None,
    as_json: bool,
) -> None:
    """Find the cameras of this network that speak ONVIF. Needs the extra `onvif`.

    With a login it also asks each for its streams, and prints the lines of a config for them. Cameras are found where
    multicast reaches them: mostly on the same network. Many have ONVIF, and a user for it, turned off at first.

    \b
    Examples:
      edgemeta cameras
      edgemeta cameras --username viewer --password-file camera-password
      edgemeta cameras --host 192.168.1.20 --username viewer --password-env CAMERA_PASSWORD --json
    """
    try:
        from edgemeta.cli.cameras import find, streams
    except ImportError as error:
        raise OnvifError(f"cameras are found by {error.name}: pip install 'edgemeta[onvif]'") from None
    if password_file is not None and password_env is not None:
        raise click.UsageError("expected only one of --password-file, --password-env")
    login = _Login(username, password_file, password_env)
    password = password_of(login)
    found = find.find(seconds) if host is None else [find.at(host)]
    answers: list[Sequence[streams.Stream] | OnvifError] = []
    for each in found if username is not None or host is not None else ():
        try:
            answers.append(streams.streams_of(each, username, password, 5 * seconds))
        except OnvifError as error:
            if host is not None:
                raise
            answers.append(error)
    values = [{**asdict(camera), **_answer(answers[number] if answers else ())} for number, camera in enumerate(found)]
    report(as_json, {"cameras": values}, _text(values, login, asked=bool(answers)))
    if answers and all(isinstance(each, OnvifError) for each in answers):
        sys.exit(1)


def _answer(answer: Sequence[Any] | OnvifError) -> dict[str, object]:
    if isinstance(answer, OnvifError):
        return {"streams": [], "error": str(answer)}
    return {"streams": [asdict(each) for each in answer], "error": None}


def _text(values: Sequence[Mapping[str, Any]], login: _Login, asked: bool) -> Iterator[str]:
    if not values:
        yield "no camera answered: is ONVIF turned on, and is it on this network? edgemeta cameras --host HOST asks one"
        return
    config: dict[str, dict[str, str]] = {}
    for camera in values:
        called = " ".join(filter(None, (camera["name"], f"({camera['hardware']})" if camera["hardware"] else "")))
        yield f"{camera['host']}:{camera['port']}  {called}".rstrip()
        if camera["error"]:
            yield f"  {camera['error']}"
        for each in camera["streams"]:
            size = f"{each['width']}x{each['height']}"
            yield f"  {each['name']:<16} {size:>9}  {each['coding']:<5} {each['rate']:>4g}/s  {each['address']}"
        if camera["streams"]:
            config[_name(camera, config)] = _section(camera["streams"], login)
    if config:
        yield ""
        yield from yaml.safe_dump({"cameras": config}, sort_keys=False, width=1000).splitlines()
    elif not asked:
        yield "their streams: edgemeta cameras --username NAME --password-file FILE"


def _name(camera: Mapping[str, Any], taken: Container[str]) -> str:
    """A name that a config may have, of what the camera calls itself."""
    name = re.sub(r"[^a-z0-9]+", "-", (camera["name"] or camera["host"]).lower()).strip("-")[:50] or "camera"
    return name if name not in taken else f"{name}-{camera['host'].rpartition('.')[2]}"


def _section(found: Sequence[Mapping[str, Any]], login: _Login) -> dict[str, str]:
    enough = [each for each in found if each["width"] >= ENOUGH]
    section = {"source": (enough[-1] if enough else found[0])["address"]}
    if section["source"] != found[0]["address"]:
        section["snapshot_source"] = found[0]["address"]
    if login.username is not None:
        section["username"] = login.username
    if login.password_file is not None:
        section["password_file"] = str(Path(login.password_file).resolve())
    if login.password_env is not None:
        section["password_env"] = login.password_env
    return section
