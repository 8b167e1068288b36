"""The README's example: what is pasted, and what it prints."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPET, SHOWN = re.search(
    r"```python\n(.*?)```\n\n(    .*?)\n\n", README, re.DOTALL
).groups()


def lines_without_numbers(text: str) -> list[str]:
    """Leave numbers and spaces out: the noise is another one each time."""
    lines = (re.sub(r"[\d.,±<]+", "#", line.strip()) for line in text.splitlines())
    return [re.sub(r"\s+", " ", line) for line in lines]
