"""Builds the site in site/ from docs/ with Zensical, and checks every link and anchor in it.

python -m docs.site
"""

import re
import shutil
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs import promises

ROOT = Path(__file__).resolve().parent.parent
DOCS, SOURCE, SITE = ROOT / "docs", ROOT / ".site", ROOT / "site"

#: Pages outside docs/, and their names in the site: docs/ has a security.md already.
BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "CHANGELOG.md": "changelog.md",
}

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json"}


def pages() -> dict[str, str]:
    """Return name → text of each page. A link to a file outside docs/ leads to a page with the file."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
    texts["promises.md"] = promises.page()
    texts |= {name: (ROOT / path).read_text(encoding="utf-8") for path, name in BESIDE.items()}
    shown: dict[str, str] = {}
    for name, text in texts.items():
        folder = ROOT if name in BESIDE.values() else DOCS
        texts[name] = _LINK.sub(partial(_relinked, folder, shown), text)
    return texts | shown


def _relinked(folder: Path, shown: dict[str, str], link: re.Match[str]) -> str:
    return f"]({_within(link[1], folder, shown)})"


def _within(link: str, folder: Path, shown: dict[str, str]) -> str:
    """Return the link for the site. A file that is no page gets a page in `shown`."""
    path, mark, anchor = link.partition("#")
    target = (folder / path).resolve()
    if "://" in link or not path or not target.exists():
        return link  # `broken` reports a link without a target
    if target == ROOT / "README.md":
        return "index.md"
    if target.is_relative_to(DOCS):
        return f"{target.relative_to(DOCS)}{mark}{anchor}"
    if target.name in BESIDE:
        return f"{BESIDE[target.name]}{mark}{anchor}"
    page = f"source-{str(target.relative_to(ROOT)).replace('/', '-')}.md"
    shown[page] = _source(target)
    return page


def _source(target: Path) -> str:
    """Return a page with a file, or with all Python files of a folder."""
    files = [target] if target.is_file() else sorted(target.glob("*.py"))
    texts = [
        f"## {path.name}\n\n````{_LANGUAGES.get(path.suffix, '')}\n{path.read_text(encoding='utf-8')}````\n"
        for path in files
    ]
    return "\n".join([f"# {target.relative_to(ROOT)}\n", *texts])


def summary(texts: dict[str, str]) -> str:
    """Return `llms.txt`, the list of pages for language models: each page with its first sentence."""
    lines = [
        "# cqrs",
        "",
        "> Event-sourced commands, decided exactly once, on Kafka and Spark; in Python.",
        "",
    ]
    for name in listed():
        title = texts[name].splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({name}): {first_sentence(texts[name])}")
    return "\n".join(lines) + "\n"


def listed() -> list[str]:
    """Return the pages in the order of the site's menu."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].partition("\n\n")[0]
    return re.findall(r"[\w-]+\.md", menu)


def first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph, without links."""
    paragraph = next(part for part in text.split("\n\n")[1:] if part[:1].isalnum() or part[:1] in "`[")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.:]) (?=[A-Z`])", plain)[0].rstrip(":")


class _Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add the links and the anchor of a tag."""
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """Return the links within the site that have no target, or whose target lacks the anchor."""
    parsed = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in sorted(parsed.items()):
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{path.name}: {link}")
            elif (
                parts.fragment and target in parsed and unquote(parts.fragment) not in parsed[target].anchors
            ):
                found.append(f"{path.name}: {link} has no such anchor")
    return found


def build() -> list[str]:
    """Make `.site` and `site`; return the broken links."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    texts = pages()
    SOURCE.mkdir()
    for name, text in texts.items():
        (SOURCE / name).write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "pictures", SOURCE / "pictures")
    for picture in DOCS.glob("*.svg"):
        shutil.copy(picture, SOURCE)
    zensical = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--clean",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    subprocess.run(zensical, cwd=ROOT, check=True, stdout=sys.stderr)
    for name in texts:
        shutil.copy(SOURCE / name, SITE / name)  # llms.txt links to the Markdown files
    (SITE / "llms.txt").write_text(summary(texts), encoding="utf-8")
    return broken(SITE)


if __name__ == "__main__":
    problems = build()
    print(*problems, sep="\n")
    sys.exit(bool(problems))
