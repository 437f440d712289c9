"""The shipped configs and the configs in the documents are valid."""

import re
from pathlib import Path
from typing import Any

import yaml

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile


def examples(page: Path) -> list[dict[str, Any]]:
    """The YAML blocks of a page that have a key of the config; others, and those with rules, are of other programs."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    loaded = [content for block in blocks for content in yaml.safe_load_all(block)]
    ours = Config.model_fields.keys()
    return [each for each in loaded if isinstance(each, dict) and each.keys() & ours and "rules" not in each]


def test_the_shipped_configs_are_valid(repository: Path) -> None:
    shipped = [*sorted((repository / "configs").glob("*.yaml")), repository / "docker" / "config.yaml"]
    assert len(shipped) > 3
    for path in shipped:
        assert ConfigFile(path, Config).validate()[1] == [], path


def test_the_configs_in_the_documents_are_valid(repository: Path, tmp_path: Path) -> None:
    found = 0
    for page in [repository / "README.md", *sorted((repository / "docs").rglob("*.md"))]:
        for example in examples(page):
            path = tmp_path / f"{page.name}.yaml"
            path.write_text(yaml.safe_dump({"cameras": {"front": {"source": "synthetic://"}}} | example))
            assert ConfigFile(path, Config).validate()[1] == [], f"{page}: {example}"
            found += 1
    assert found > 5
