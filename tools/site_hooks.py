"""What MkDocs can't do by itself: pages that aren't in docs/, links that leave it, and pictures of a job that hangs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PICTURES = {
    "terminal": "![What mqs job prints](pictures/terminal.svg)",
    "graph": "[![Who waits for whom](pictures/graph.svg)](pictures/hang.html)",
}
"""By the word in a page's comment, which GitHub doesn't show. The tests make the files, in the folder MQS_PICTURES."""


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, the changelog, the Python interface, and the pictures."""

    def of_root(name: str) -> str:
        text = (ROOT / name).read_text()
        return re.sub(r"\]\((?!https?:|#|docs/)", f"]({_source(config)}", text).replace("](docs/", "](")

    pages = {"index.md": of_root("README.md"), "changelog.md": of_root("CHANGELOG.md"), "api.md": _interface()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    folder = os.environ.get("MQS_PICTURES")
    for path in sorted(Path(folder).iterdir()) if folder else ():
        files.append(File.generated(config, f"pictures/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links to the repository's other files there, and put in the pictures, where they were made."""

    def picture(found: re.Match[str]) -> str:
        if found[1] not in PICTURES:
            raise PluginError(f"{page.file.src_uri} wants a picture that nobody makes: {found[1]}")
        return PICTURES[found[1]] if "MQS_PICTURES" in os.environ else ""

    return re.sub(r"<!-- picture: (\w+) -->", picture, markdown.replace("](../", f"]({_source(config)}"))


def _source(config: Any) -> str:
    return f"{config.repo_url}/blob/main/"


def _interface() -> str:
    """Return the page on what ``mqs_dll`` offers, functions first: docstrings take the place of these lines."""
    text = (ROOT / "mqs_dll/commands/api.py").read_text()
    names = re.findall(r'^    "(\w+)",$', text.partition("__all__ = [")[2].partition("]")[0], re.MULTILINE)
    parts = [f"::: mqs_dll.commands.api.{name}" for name in sorted(names, key=lambda name: not name.islower())]
    head = "# Python API\n\nImport these names from `mqs_dll`; [python.md](python.md) has an example."
    return "\n\n".join([head, *parts])
