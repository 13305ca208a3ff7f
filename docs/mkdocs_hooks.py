"""What the site adds to MkDocs: pages for linked files outside of docs/, and figures in the colours of the page.

A page may link to any file of the repository, as on a code host: `../examples/softmax.py`, or `docs/graph.md` from
ARCHITECTURE.md. Every linked file outside of docs/ becomes a page of the site at its own path.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ALWAYS = ("ARCHITECTURE.md",)
"""Files outside of docs/ that are pages even if no page links to them."""
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json"}
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
COLOURED = re.compile(r"^(\s*classDef \w+ )fill:#\w+,?", re.MULTILINE)
"""The colours that LangGraph gives a diagram: they leave no contrast on a dark page."""
FIGURE = re.compile(r'<p><img alt="[^"]*" src="([^"]+\.svg)" ?/></p>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside of docs/ that a page links to, and for what those link to in turn."""
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()] + list(ALWAYS)
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(File.generated(config, _page_of(path), content=_text_of(path)))
        if path.endswith(".md"):
            found = {_target(path, match[1]) for match in LINK.finditer((ROOT / path).read_text(encoding="utf-8"))}
            new = {p for p in found - seen if not p.startswith(("docs/", "../")) and (ROOT / p).is_file()}
            seen |= new
            waiting += sorted(new)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point each link at the page that its file has on the site. One that has none stays, and fails the build."""
    source = _source_of(page.file.src_uri)
    if not source.endswith(".md"):
        return markdown

    def replace(match: re.Match[str]) -> str:
        file = files.get_file_from_path(_page_of(_target(source, match[1])))
        if file is None:
            return match[0]
        start = posixpath.dirname(page.file.src_uri)
        return f"]({posixpath.relpath(file.src_uri, start or '.')}{match[2] or ''})"

    return COLOURED.sub(_plain, LINK.sub(replace, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw SVG figures into the page, where they take its colours."""

    def replace(match: re.Match[str]) -> str:
        path = ROOT / "docs" / posixpath.join(posixpath.dirname(page.file.src_uri), match[1])
        return path.read_text(encoding="utf-8") if path.is_file() else match[0]

    return FIGURE.sub(replace, html)


def _plain(style: re.Match[str]) -> str:
    """A mermaid style without its fill; mermaid allows no empty one."""
    left = style.string[style.end() :].partition("\n")[0].strip()
    return style[1] + ("" if left else "stroke-width:3px")


def _target(source: str, link: str) -> str:
    """The path from the repository's root that a link in the file `source` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _page_of(path: str) -> str:
    """Where a file of the repository lies among the site's sources."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path.endswith(".md") else f"{path}.md"


def _source_of(src_uri: str) -> str:
    """The opposite of `_page_of`."""
    if (ROOT / "docs" / src_uri).is_file():
        return f"docs/{src_uri}"
    return src_uri if (ROOT / src_uri).is_file() else src_uri.removesuffix(".md")


def _text_of(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}````\n"
