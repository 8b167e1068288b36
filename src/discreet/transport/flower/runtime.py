"""Flower as the runtime of both ends of a deployed session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.transport.flower.node import probe
from discreet.transport.flower.processes import MOST_BYTES, superlink
from discreet.transport.flower.records import reply_with
from discreet.transport.flower.serving import serve
from discreet.transport.joining import Answering, Report
from discreet.transport.keys import CA, CoordinatorKeys, SiteKeys

if TYPE_CHECKING:
    from discreet.transport.flower.server import GridTransport


@dataclass(frozen=True, slots=True)
class FlowerRuntime:
    """A coordinator's SuperLink, and sites that connect to it as nodes.

    It implements ``SiteRuntime`` and ``CoordinatorRuntime``.
    """

    def serve(
        self,
        keys: SiteKeys,
        address: str,
        answer: Answering,
        *,
        until: Callable[[], bool],
        wait_seconds: float,
        tell: Callable[[str], None],
        report: Report,
    ) -> None:
        """Connect as a node, and answer messages until ``until`` holds."""
        serve(
            keys,
            address,
            lambda message, _: reply_with(answer, message, report=report),
            until=until,
            wait_seconds=wait_seconds,
            tell=tell,
        )

    def probe(self, keys: SiteKeys, address: str) -> float | None:
        """Reach a SuperLink without joining; return how far this clock is ahead."""
        return probe(keys, address)

    @contextmanager
    def listen(
        self,
        keys: CoordinatorKeys,
        nodes: Mapping[str, bytes],
        *,
        host: str,
        port: int,
        vector_bytes: int,
    ) -> Iterator[GridTransport]:
        """Start a SuperLink, register the nodes, and end it on leaving."""
        quiet()
        authority = (keys.folder / CA).read_bytes()
        most = MOST_BYTES + vector_bytes
        with superlink(
            keys, host=host, port=port, most_bytes=most, nodes=nodes.values()
        ) as link:
            # Loaded while Flower's own process starts, which takes seconds: what calls
            # it, and what fits a release, for which somebody would wait at the end.
            import scipy.interpolate  # noqa: PLC0415
            import scipy.optimize  # noqa: F401, PLC0415

            from discreet.estimate import smooth_fit  # noqa: F401, PLC0415
            from discreet.transport.flower import server, tasks  # noqa: PLC0415

            numbers = tasks.register(link, authority, dict(nodes))
            node_ids = dict(enumerate(numbers.values(), 1))
            with tasks.coordinator_grid(link, authority) as grid:
                yield server.GridTransport(grid, node_ids=node_ids)


def quiet() -> None:
    """Keep Flower's own messages off the terminal."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
