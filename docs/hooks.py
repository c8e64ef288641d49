"""What the site has beside docs/: pages and pictures from elsewhere in the repository. mkdocs.yml
names this file.

Links in the Markdown are as a reader of the repository follows them; here they are turned to where
the site has the same page. A link to a file that the site does not have becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # where the repository has it → where the site has it
    "README.zh.md": "zh.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "src/hanlattice/ops/lattice_lstm/README.md": "lattice-lstm-op.md",
    "src/hanlattice/ops/crf/README.md": "crf-op.md",
    "README.md": "index.md",
}
PICTURES = "benchmarks/results"
CODE = (
    r"^ *```.*?^ *```$|`[^`\n]+`"  # what stands in it is no link, though a link's text may hold it
)
LINK = re.compile(
    rf"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)|{CODE}", re.MULTILINE | re.DOTALL
)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and pictures from outside docs/."""
    for source, page in PAGES.items():
        if page != "index.md" and (ROOT / source).exists():
            files.append(
                File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8"))
            )
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(
            File.generated(config, f"{PICTURES}/{picture.name}", abs_src_path=str(picture))
        )
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Turn every link of a page, outside of code, to where it is in the site."""
    here = {there: source for source, there in PAGES.items()}.get(page.file.src_uri)
    folder = posixpath.dirname(
        f"docs/{page.file.src_uri}" if here is None or here == "README.md" else here
    )
    known = {file.src_uri for file in files}

    def turned(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, _, anchor = (target or "").partition("#")
        if not path or ":" in path:
            return match[0]
        source = posixpath.normpath(posixpath.join(folder, path))
        there = PAGES.get(source, source.removeprefix("docs/"))
        if there not in known:
            return text
        return f"{mark}[{text}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(turned, markdown)
