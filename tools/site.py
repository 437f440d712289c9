"""What `mkdocs.yml` needs beside MkDocs: tables, lists of two folders, and links to files that are not of the site.

The documents are read in the repository, too, where a link to a source file leads to it. In the site it leads to the
file in the repository that `repo_url` names, and is plain text while there is none.
"""

import json
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.documents import filled

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_LISTS = {
    "decisions": "Decisions: why it is built this way",
    "notebook": "Notebook: what was measured and tried; nobody has to know it to use or change the code",
    "schema": "Schemas of the messages",
}
"""Title of the list of each folder whose files are linked only from there."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the lists, each file by the title that it states."""
    for folder, title in _LISTS.items():
        listed = [file for file in files if posixpath.dirname(file.src_uri) == folder]
        lines = [f"- [{_title(file)}]({posixpath.basename(file.src_uri)})" for file in listed]
        files.append(File.generated(config, f"{folder}/index.md", content="\n".join([f"# {title}", "", *lines])))
    return files


def _title(file: File) -> str:
    if not file.is_documentation_page():
        content = json.loads(file.content_string)
        return str(content.get("title") or content["info"]["title"])
    return file.content_string.split("\n", 1)[0].removeprefix("# ").replace(". ", ": ", 1)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """The page with its tables, and with the links changed that lead out of docs/, or to a folder with a list."""
    folder = posixpath.dirname(page.file.src_uri)

    def changed(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        path, hash_sign, name = target.partition("#")
        place = posixpath.relpath(posixpath.join("docs", folder, path), "docs")
        if place in _LISTS:
            return f"[{text}]({posixpath.relpath(place, folder or '.')}/index.md)"
        if not place.startswith(".."):
            return link[0]
        source = posixpath.normpath(posixpath.join("docs", place))
        return (
            f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{source}{hash_sign}{name})" if config.repo_url else text
        )

    return _LINK.sub(changed, filled(markdown))
