"""The built site also holds pages that lie outside ``docs/``: a hook of mkdocs.

The papers' pages stand beside what they measure, and a code host looks for SECURITY.md at
the top. Links in both directions are those of the repository; here they become the site's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File

ROOT: Final = Path(__file__).resolve().parents[1]
OUTSIDE: Final = {
    ROOT / "SECURITY.md": "SECURITY.md",
    ROOT / "papers" / "README.md": "papers/running.md",
    **{
        path: f"papers/{path.name}"
        for path in sorted((ROOT / "papers" / "docs").iterdir())
    },
}
"""Files of the repository, and their places on the site."""
_LINK: Final = re.compile(r"(\]\()([^)#\s:]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and pictures from outside."""
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_others: Any) -> str:
    """Let each link lead to where its page is on the site."""
    here = page.file.src_uri
    source = {place: path for path, place in OUTSIDE.items()}.get(here)
    folder = (source or ROOT / "docs" / here).parent

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        if target in OUTSIDE:
            place = OUTSIDE[target]
        elif source is not None and target.is_relative_to(ROOT / "docs"):
            place = target.relative_to(ROOT / "docs").as_posix()
        else:
            return link[0]
        return link[1] + os.path.relpath(place, Path(here).parent)

    return _LINK.sub(moved, markdown)
