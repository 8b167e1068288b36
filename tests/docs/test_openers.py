"""Every page says first whom it is for, what it gives and its terms, and is in the navigation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "signing").glob("*.md")])
PAPERS = sorted((ROOT / "papers" / "docs").glob("*.md"))


def _paragraphs(page):
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [part.strip() for part in text.split("\n\n")[1:] if part.strip()]


@pytest.mark.parametrize(
    "page", [*PAGES, *PAPERS], ids=lambda p: str(p.relative_to(ROOT))
)
def test_a_page_opens_with_whom_it_is_for_what_it_gives_and_its_terms(page):
    warning = re.compile(r"[>*\s]*Not reviewed by an outside cryptographer")
    told = [p for p in _paragraphs(page) if not warning.match(p)]
    assert re.match(r"For \w+", told[0]), told[0][:80]
    opening = " ".join(" ".join(told[:2]).split())
    assert re.search(r"\b(?i:after (this|these) (page|pages|one))\b", opening)
    if page.stem != "glossary":
        assert re.search(r"Terms: |Terms are in the \[glossary\]", opening)


def test_every_page_is_in_the_navigation_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    nav = nav.partition("not_in_nav:")[0]
    listed = re.findall(r"(?:: |- )([\w/-]+\.md)$", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {
        *(str(page.relative_to(DOCS)) for page in PAGES),
        "decisions/README.md",
        "papers/index.md",
    }
