"""Writes docs/schema: JSON Schema of every message, the page's state and `doctor`'s report, and the AsyncAPI document.

tools.documents writes them.
"""

import json

from pydantic import BaseModel

from edgemeta.cli.doctor.report import DoctorReport
from edgemeta.daemon.messages.channels import CHANNELS
from edgemeta.daemon.messages.collection import CollectionState
from edgemeta.daemon.messages.page import PageState
from tools.asyncapi import document


def files() -> dict[str, str]:
    """Return the files of docs/schema: name to text."""
    records: dict[str, type[BaseModel]] = {
        channel.name: channel.message for channel in CHANNELS if channel.message is not None
    }
    records["page"] = PageState
    records["collection"] = CollectionState
    records["doctor"] = DoctorReport
    texts = {
        f"{name}.schema.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **record.model_json_schema(mode="serialization"),
        }
        for name, record in records.items()
    }
    texts["asyncapi.json"] = document()
    return {name: json.dumps(content, indent=2, ensure_ascii=False) + "\n" for name, content in texts.items()}
