"""Pages, code and tests use the field's terms: listed home-made phrases and old names are gone.

Whole phrases and identifiers are listed, never ordinary words. ``docs/decisions`` and the
changelog may quote what was called so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "papers", "bench", "examples", "clients", "tests")
KINDS = {".md", ".py", ".toml", ".j2", ".js", ".mjs"}
PHRASES = {
    # phrase: (an example, what to write instead)
    r"what was opened|opened sums?": ("the opened sum", "revealed; released"),
    r"\b(?:a|the|each|every|one|its|first|second|last|next) letters?\b(?! or digit)": (
        "a site's answer is the second letter",
        "message",
    ),
    r"\banother reading of|\breadings? of (?:a|the) release": (
        "two readings of a release",
        "fit",
    ),
    r"\bnoise(?:'s)? laws?\b|\blaws? of (?:the )?noise\b": (
        "the law of the noise",
        "noise distribution",
    ),
    r"\bfirst look\b|--look\b|\blook=(?:True|False)": ("a first look", "pilot round"),
    r"\bkept flips\b|\bcustody\b": ("kept flips", "randomized response; key store"),
    r"\bliars?\b|\blying (?:site|member|coordinator)s?\b": (
        "a lying site",
        "malicious site; false data",
    ),
    r"\bfloor plan\b|\bmuseum\b|\bknock(?:s|ing)? at\b": (
        "who is knocking at the port",
        "architecture; entry point",
    ),
    r"\bjudging half\b|\b(?:a|the) zoo\b": ("the judging half", "held-out half"),
    r"as long as the cryptography does": (
        "it holds as long as the cryptography does",
        "assumes that the cryptography is secure",
    ),
    r"\bno wish\b": ("an empty list is no wish", "what an empty list means"),
    r"\bpays? twice\b|\bnobody pays\b": ("nobody pays twice", "no second charge"),
    r"\b(?:result|curve|value) a class\b": ("a result a class", "per class"),
    r"\beach also apart\b": ("each also apart", "each also available separately"),
    r"\bemptied, cut or put back\b": (
        "emptied, cut or put back",
        "truncated, emptied or rolled back",
    ),
    r"\bin one pot\b": ("all in one pot", "pooled"),
    r"\bscores are found in a first\b": (
        "scores are found in a first round",
        "a pilot round estimates where the scores lie",
    ),
    r"\bscores=[\"']other[\"']": ('scores="other"', 'kind="other"'),
}
NAMES = ("Letter", "Opened", "Liar", "NoiseLaw", "first_look", "inverse_signal")
"""Identifiers of earlier editions."""
HISTORY = r"\b(?:was|were) tried\b|\bearlier rules?\b|\bof then\b|\bused to be\b"
"""What pages say of the past; only decisions do."""
SCANNED = sorted(
    path
    for path in [
        *ROOT.glob("*.md"),
        *(file for name in FOLDERS for file in (ROOT / name).rglob("*")),
    ]
    if path.suffix in KINDS
    and path.name != "CHANGELOG.md"
    and path != Path(__file__)
    and not path.name.endswith(".min.js")  # what the browser tests download
    and not {"decisions", "node_modules", "__pycache__"} & set(path.parts)
)


def test_everything_is_scanned():
    assert len(SCANNED) > 400


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_home_made_phrase_is_nowhere(phrase):
    assert _places(phrase, SCANNED) == [], f"write: {PHRASES[phrase][1]}"


def test_a_name_of_an_earlier_edition_is_nowhere():
    names = rf"\b(?:{'|'.join(NAMES)})\b"
    assert _places(names, SCANNED, flags=re.NOFLAG) == []


def test_pages_say_the_present_state():
    pages = [path for path in SCANNED if ROOT / "docs" in path.parents]
    pages.remove(ROOT / "docs" / "index.md")  # says what the decisions hold
    assert _places(HISTORY, pages) == []


def _places(
    phrase: str, paths: list[Path], *, flags: re.RegexFlag = re.IGNORECASE
) -> list[str]:
    """Return where a phrase stands, also when its words are on two lines."""
    pattern = re.compile(phrase.replace(" ", r"\s+"), flags)
    places = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            places.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    return places


def test_the_places_of_a_phrase_are_found_across_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    for phrase, (example, _) in PHRASES.items():
        page.write_text(f"Here\n{example.replace(' ', chr(10), 1)}.\n")
        assert _places(phrase, [page]), phrase
    page.write_text("An earlier rule was tried.\n")
    assert len(_places(HISTORY, [page])) == 2
