"""A survivor is explained by a rule or by name, or it fails `make nightly`."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.mutations import survivors
from tests.mutations.change import Explanation
from tests.mutations.explanations import EXPLAINED
from tests.support import ROOT

MUTATED = """
def x_f__mutmut_orig(a, b):
    c = "as it was"
    return a[:16] + len(list(zip(a, b, strict=True)))

def x_f__mutmut_1(a, b):
    c = {0}
    return a[:16] + len(list(zip(a, b, strict=True)))

def x_f__mutmut_2(a, b):
    c = "as it was"
    return {1}
"""
Explain = Callable[[survivors.Survivor], str | None]
WORDS, SUM = '"as it was"', "a[:16] + len(list(zip(a, b, strict=True)))"


def run(
    folder: Path,
    words: str = WORDS,
    total: str = SUM,
    codes: tuple[int | None, ...] = (0, 0),
    explain: Explain = survivors.explanation_of,
) -> int:
    """Return the exit code for two mutants with these results."""
    (folder / "cqrs_cli").mkdir(exist_ok=True)
    names = ["cqrs_cli.core.x_f__mutmut_1", "cqrs_cli.core.x_f__mutmut_2"]
    (folder / "cqrs_cli/core.py").write_text(MUTATED.replace("{0}", words).replace("{1}", total))
    results = {"exit_code_by_key": dict(zip(names, codes, strict=True))}
    (folder / "cqrs_cli/core.py.meta").write_text(json.dumps(results))
    return survivors.main(folder, explain)


def test_change_of_words_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = "a[:16] + len(list(zip(a, b, )))"
    assert run(tmp_path, '"XXas it wasXX"', total) == run(tmp_path, '"AS IT WAS"', total) == 0
    assert "2 mutants are explained, 0 are not" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "total"),
    [("None", SUM), ('"as it is"', SUM), (WORDS, SUM.replace("16", "17")), (WORDS, SUM.replace("+", "-"))],
)
def test_other_change_is_listed(
    words: str, total: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = (0, 1) if total == SUM else (1, 0)
    assert run(tmp_path, words, total, codes) == 1
    output = capsys.readouterr().out
    assert (f"  - c = {WORDS}\n  + c = {words}\n" if total == SUM else f"  + return {total}\n") in output
    assert "0 mutants are explained, 1 are not" in output


def test_named_change_is_explained(tmp_path: Path) -> None:
    explanation = Explanation("core", "seen by nobody", ("a[:17] +",))
    run_one = partial(
        run, tmp_path, codes=(1, 0), explain=partial(survivors.explanation_of, explanations=[explanation])
    )
    assert run_one(total=SUM.replace("16", "17")) == 0
    assert run_one(total=SUM.replace("16", "18")) == 1


def test_line_that_is_gone_is_explained(tmp_path: Path) -> None:
    gone = Explanation("core", "seen by nobody", (), gone=(f"c = {WORDS}",))
    explain = partial(survivors.explanation_of, classes=(), explanations=[gone])
    assert run(tmp_path, codes=(0, 1), total=SUM, explain=explain) == 1
    (tmp_path / "cqrs_cli/core.py").write_text(MUTATED.replace("    c = {0}\n", "").replace("{1}", SUM))
    assert survivors.main(tmp_path, explain) == 0


def test_outdated_explanation_is_found() -> None:
    change = survivors.Survivor("core.x_f__mutmut_1", "core", "a[:16]", "a[:17]")
    explanation = Explanation("core", "seen by nobody", ("a[:17]", "b[:17]"))
    assert survivors.outdated_texts([change], [explanation]) == ["core: b[:17]"]


def test_skipped_mutant_needs_an_explanation(tmp_path: Path) -> None:
    """The runner skips explained mutants. Without its explanation, a skipped mutant is reported."""
    codes = (survivors.SKIPPED, 1)
    assert run(tmp_path, '"AS IT WAS"', codes=codes) == 0
    assert run(tmp_path, '"as it is"', codes=codes) == 1


def test_run_must_be_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, codes=(1, None)) == 1
    assert run(tmp_path, codes=(1, 1)) == 0
    assert "1 were not run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "explained", EXPLAINED, ids=lambda survivor: f"{survivor.module}: {survivor.why}"[:60]
)
def test_explained_code_exists(explained: Explanation) -> None:
    """The mutated code that an explanation quotes is in no file, so only the module is checked."""
    assert (ROOT / "cqrs_cli" / f"{explained.module.replace('.', '/')}.py").is_file()
    assert explained.why and (explained.texts or explained.gone)
