"""Filling in a page: its style, its script, and the policy that allows these alone."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES: Final = Path(__file__).parent / "templates"


def page_parts(script_name: str) -> dict[str, str]:
    """Return the style, the script and the policy that allows these two alone."""
    style, script = _text("report.css"), _text(script_name)
    return {"style": style, "script": script, "policy": _policy(style, script)}


def render_template(name: str, **values: Any) -> str:
    """Fill in a template; every value is escaped unless it says that it is safe."""
    return _template(name).render(**values)


def _policy(style: str, script: str) -> str:
    """Allow this script and this style, and nothing else at all."""
    hashed = {
        kind: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for kind, content in (("script", script), ("style", style))
    }
    return (
        f"default-src 'none'; script-src 'sha256-{hashed['script']}'; "
        f"style-src 'sha256-{hashed['style']}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def script_json(content: Any) -> str:
    """Return JSON that cannot end the script element that holds it."""
    plain = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace("&", "\\u0026")


@cache
def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> Template:
    from jinja2 import (  # noqa: PLC0415 - only a report needs it
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
