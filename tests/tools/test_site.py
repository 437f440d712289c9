"""The site of the documents: a small one is built by MkDocs, with a decision, a schema and a link to a source file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material", reason="mkdocs-material is missing (extra `docs`)")

CONFIG = """
site_name: small
docs_dir: docs
site_dir: site
use_directory_urls: false
theme: {name: material, font: false}
hooks: [HOOK]
validation: {links: {not_found: warn}}
nav: [README.md, decisions/index.md, schema/index.md]
not_in_nav: decisions/0*.md
"""


@pytest.fixture
def small(tmp_path: Path, repository: Path) -> Path:
    (tmp_path / "mkdocs.yml").write_text(CONFIG.replace("HOOK", str(repository / "tools" / "site.py")))
    for folder in ("docs/decisions", "docs/schema"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs" / "README.md").write_text(
        "# Small\n\n[why](decisions), [code](../model/graph.py#L3)\n\n<!-- table: keys -->\n"
    )
    (tmp_path / "docs" / "decisions" / "0007-outbox.md").write_text("# 7. Messages wait\n\nIn a file.\n")
    (tmp_path / "docs" / "schema" / "frame.schema.json").write_text(json.dumps({"title": "Frame message"}))
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_folders_have_lists_and_sources_no_dead_links(small: Path) -> None:
    assert build(small).returncode == 0
    page = small / "site" / "index.html"
    assert 'href="decisions/index.html">why' in page.read_text("utf-8")
    assert "why</a>, code" in page.read_text("utf-8")
    assert "<td><code>mqtt.host</code></td>" in page.read_text("utf-8")
    assert '"0007-outbox.html">7: Messages wait' in (small / "site" / "decisions" / "index.html").read_text("utf-8")
    assert '"frame.schema.json">Frame message' in (small / "site" / "schema" / "index.html").read_text("utf-8")


def test_sources_are_linked_where_the_repository_has_an_address(small: Path) -> None:
    config = small / "mkdocs.yml"
    config.write_text(config.read_text() + "repo_url: https://git.example/edgemeta\n")
    assert build(small).returncode == 0
    assert 'href="https://git.example/edgemeta/blob/main/model/graph.py' in (small / "site" / "index.html").read_text()


def test_a_dead_link_is_an_error(small: Path) -> None:
    (small / "docs" / "decisions" / "0007-outbox.md").write_text("# 7. Messages wait\n\n[In a file](0008-none.md).\n")
    result = build(small)
    assert result.returncode != 0
    assert "0008-none.md" in result.stderr
