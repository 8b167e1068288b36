"""What happened, as JSON lines: for programs that watch a session.

No event holds a number that depends on data: names, steps, times, and sizes that follow
from the plan.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass
class EventLog:
    """A file of JSON lines, its owner's alone; without a path, nothing is written."""

    path: Path | None = None

    def __call__(self, event: str, **details: Any) -> None:
        """Append an event with its time."""
        if self.path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **details})
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(self.path, flags, 0o600), "a", encoding="utf-8") as file:
            file.write(line + "\n")
