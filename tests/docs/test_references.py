"""Pages point to what is there: contents to headings, sections and equations by their numbers, links to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MATHS = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SECTIONS = dict(re.findall(r"^## (\d+)\. (.*)$", MATHS, flags=re.M))
EQUATIONS = re.findall(r"\\tag\{(\d+)\}", MATHS)


def anchor(heading: str) -> str:
    """The name under which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> list[str]:
    """The headings of a page; a line with # in a block of code is none."""
    return re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)


def test_contents_are_the_headings() -> None:
    contents = re.findall(r"^(\d+)\. \[(.*)\]\(#(.*)\)$", MATHS, flags=re.M)
    assert [(number, title) for number, title, _ in contents] == list(SECTIONS.items())
    assert [link for _, _, link in contents] == [anchor(f"{number}. {title}") for number, title, _ in contents]


def test_sections_and_equations_are_numbered_in_order() -> None:
    assert list(SECTIONS) == [str(number + 1) for number in range(len(SECTIONS))]
    assert [str(number + 1) for number in range(len(EQUATIONS))] == EQUATIONS


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_sections_and_equations_referred_to_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = re.sub(r"paper's section \d+", "", text)
    assert set(re.findall(r"\bsection (\d+)", own)) <= set(SECTIONS)
    assert set(re.findall(r"\bequation \((\d+)\)", own)) <= set(EQUATIONS)


def test_numbers_in_brackets_on_the_page_of_mathematics_are_equations() -> None:
    prose = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`", "", MATHS, flags=re.S)
    assert set(re.findall(r"(?<!\w)\((\d+)\)", prose)) <= set(EQUATIONS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        file, _, name = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if name:
            assert name in map(anchor, headings(target.read_text(encoding="utf-8"))), link


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "Makefile", "README.md"])
def test_tests_and_folders_that_are_named_exist(name: str) -> None:
    paths = re.findall(
        r"(?<![\w/.-])((?:tests|benchmarks|docs)/[\w/.*-]*\w)", (ROOT / name).read_text(encoding="utf-8")
    )
    assert paths
    assert [path for path in paths if not list(ROOT.glob(path))] == []
