"""A registry of one small network, which a server on loopback has, and what makes processes read this registry."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgemeta.cli.getting import made_of
from edgemeta.model.known.registry import Accuracy, KnownNetwork, RemoteFile
from edgemeta.toolchain.known.download import MIRROR
from tests.toolchain.importer.tflite_cases import int8_dense, written_int8
from tests.toolchain.known.file_server import Served, serving

FOLDER = f"https://raw.githubusercontent.com/somebody/things/{'b' * 40}"
NAME = "small"

READS_IT = """
from pathlib import Path
import edgemeta.model.known.registry as registry
place = (Path(__file__).with_name("networks.yaml"),)
registry.known_networks.__wrapped__.__defaults__ = registry.known_network.__defaults__ = place
"""


@dataclass
class Offered:
    """The entry, called `small`, the content of the models that it gives and gave before, and where its file is."""

    server: Served
    network: KnownNetwork
    model: bytes
    earlier: bytes
    path: str
    variables: dict[str, str]


def remote(name: str, content: bytes) -> RemoteFile:
    """A file of somebody else."""
    return RemoteFile(address=f"{FOLDER}/{name}", sha256=hashlib.sha256(content).hexdigest(), size=len(content))


@contextmanager
def offered_network(folder: Path) -> Iterator[Offered]:
    """Serve the network. variables: of the environment of a process that reads the registry. folder: a new one."""
    folder.mkdir()
    path = written_int8(int8_dense, folder)
    content = path.read_bytes()
    entry = KnownNetwork(
        what="five things",
        task="classification",
        licence="MIT",
        file=remote("small.tflite", content),
        settings={"mean": 128, "std": 50, "labels": ["crane", "cat", "dog", "bird", "boat"]},
        gives="integer",
        digest="0" * 64,
        accuracy=Accuracy(figure="all right", command="true"),
    )
    before = entry.model_copy(update={"settings": {**entry.settings, "labels": list("abcde")}})
    model, earlier = (made_of(NAME, each, path, None)[0] for each in (entry, before))
    digests = [hashlib.sha256(each).hexdigest() for each in (model, earlier)]
    entry = entry.model_copy(update={"digest": digests[0], "earlier": (digests[1],)})
    (folder / "networks.yaml").write_text(json.dumps({NAME: entry.model_dump(mode="json", exclude_none=True)}))
    (folder / "sitecustomize.py").write_text(READS_IT)
    with serving() as server:
        path_there = f"/{entry.file.address.removeprefix('https://')}"
        server.files[path_there] = content
        python_path = os.pathsep.join((str(folder), *filter(None, [os.environ.get("PYTHONPATH")])))
        variables = {MIRROR: server.address, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": python_path}
        yield Offered(server, entry, model, earlier, path_there, variables)
