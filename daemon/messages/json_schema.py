"""Writes docs/schema: the JSON Schema of every message and of the page's state, and the AsyncAPI document.

Run `python -m edgemeta.daemon.messages.json_schema docs/schema` after changing messages; a test compares.
"""

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from edgemeta.daemon.messages.asyncapi import document
from edgemeta.daemon.messages.channels import CHANNELS
from edgemeta.daemon.messages.collection import CollectionState
from edgemeta.daemon.messages.page import PageState


def files() -> dict[str, str]:
    """Return the files of docs/schema: name to text."""
    records: dict[str, type[BaseModel]] = {
        channel.name: channel.message for channel in CHANNELS if channel.message is not None
    }
    records["page"] = PageState
    records["collection"] = CollectionState
    texts = {
        f"{name}.schema.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **record.model_json_schema(mode="serialization"),
        }
        for name, record in records.items()
    }
    texts["asyncapi.json"] = document()
    return {name: json.dumps(content, indent=2, ensure_ascii=False) + "\n" for name, content in texts.items()}


def write(folder: Path) -> None:
    """Write all files into a folder, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
