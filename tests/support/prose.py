"""Idioms that stop a reader from the field, counted in docstrings, comments and pages."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support import ROOT

#: A clause or pronoun in place of a noun, things that speak, and rare words.
IDIOMS = re.compile(
    r"\b(?:those (?:of|that|who|which)|the ones? (?:of|that|who|which)|that of|one that|whoever|whichever|whatever"
    r"|(?:of|for|to|by|from|than|with|in|at|on) what|what (?:it|is|was|has|they|he|an?|the|else|owners?|tasks?)"
    r"|who has|who reads|nobody|somebody|anybody|says?|said|tells?|told"
    r"|(?:rests?|stands?|lies|lie|stood|lay)(?! by)"
    r"|anew|by and by|in vain|meanwhile|lately|seldom|beside|borne?|mend(?:ed|s)?|wherever|thither|hitherto|whence)\b",
    re.IGNORECASE,
)

_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)


def tracked_files(*patterns: str) -> list[Path]:
    """Return the tracked files that match, without the changelog."""
    tracked_paths = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True
    ).stdout
    paths = [ROOT / name for name in tracked_paths.splitlines() if name != "CHANGELOG.md"]
    return [path for path in paths if path.exists()]


def prose(path: Path) -> Iterator[str]:
    """Yield the prose of a page without its code blocks, or the docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield _CODE_BLOCK.sub("", text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("#: ")


def idiom_rate(paths: Iterable[Path]) -> float:
    """Return the number of idioms per 10,000 words."""
    texts = [text for path in paths for text in prose(path)]
    words = sum(len(text.split()) for text in texts)
    return 10_000 * sum(len(IDIOMS.findall(text)) for text in texts) / max(1, words)
