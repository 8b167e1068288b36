"""Every page says first whom it is for, and stands in the navigation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "signing").glob("*.md")])


def _paragraphs(page):
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [part.strip() for part in text.split("\n\n")[1:] if part.strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))
def test_a_page_opens_with_whom_it_is_for(page):
    warning = re.compile(r"[>*\s]*Not reviewed by an outside cryptographer")
    first = next(p for p in _paragraphs(page) if not warning.match(p))
    assert re.match(r"For \w+", first), first[:80]


def test_every_page_is_in_the_navigation_once():
    nav = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2]
    nav = nav.partition("not_in_nav:")[0]
    listed = re.findall(r"(?:: |- )([\w/-]+\.md)$", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {
        *(str(page.relative_to(DOCS)) for page in PAGES),
        "decisions/README.md",
    }
