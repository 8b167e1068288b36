"""Strangers who reach a real SuperLink: what they may not do, and what they cost."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE

from discreet.errors import PlanError
from discreet.models.distributed import DistributedDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.transport.coordinating import coordinate
from discreet.transport.flower.runtime import FlowerRuntime
from discreet.transport.flower.tasks import coordinator_grid
from discreet.transport.keys import CoordinatorKeys
from e2e.flower_consortium import Consortium, consortium, plan_for

pytestmark = pytest.mark.flower


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("consortium"), started=()) as started:
        yield started


def stranger(running: Consortium) -> ControlHttpClient:
    """A client with the certificate that is public, and nothing else."""
    return ControlHttpClient.from_server_address(
        running.link.runtime,
        insecure=False,
        root_certificates=running.authority,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
    )


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [s for s in status.splitlines() if s.startswith("VmRSS:")]
    return 1024 * int(line.split()[1])


def node_key() -> bytes:
    public = ec.generate_private_key(ec.SECP384R1()).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_stranger_registers_stops_and_strikes_off_nobody(running: Consortium) -> None:
    client = stranger(running)
    asked = [
        lambda: client.RegisterNode(
            RegisterNodeRequest(public_key=node_key(), name="stranger")
        ),
        lambda: client.UnregisterNode(UnregisterNodeRequest(node_id=1)),
        lambda: client.StopRun(StopRunRequest(run_id=1)),
        lambda: client.ListNodes(ListNodesRequest()),
    ]
    with coordinator_grid(running.link, running.authority) as grid:
        for ask in asked:
            with pytest.raises(httpx.HTTPStatusError, match="403"):
                ask()
        assert list(grid.get_node_ids()) == []  # the run goes on, and answers
    client.close()


@pytest.mark.parametrize("path", ["/v1/fleet/push-object", "/v1/runtime/push-object"])
def test_an_anonymous_flood_does_not_grow_the_server(
    running: Consortium, path: str
) -> None:
    """Flower would read and decode the body before it asks who sent it."""
    before = resident(running.link.pid)
    context = ssl.create_default_context(cadata=running.authority.decode())
    address = f"https://{running.link.runtime}{path}"
    size, grown = 8 * 10**8, 0

    def flood() -> Iterator[bytes]:
        nonlocal grown
        for _ in range(size // 10**6):
            grown = max(grown, resident(running.link.pid) - before)
            yield bytes(10**6)

    headers = {"content-type": PROTOBUF_MEDIA_TYPE}
    with httpx.Client(verify=context, timeout=60) as client:
        for announced in ({"content-length": str(size)}, {}):
            try:
                answer = client.post(
                    address, content=flood(), headers={**headers, **announced}
                )
            except httpx.HTTPError:
                continue  # it hung up on us, unread
            assert answer.status_code in {403, 411, 413}
    time.sleep(0.5)
    grown = max(grown, resident(running.link.pid) - before)
    assert grown < 5 * 10**7


def test_a_plan_without_a_roster_is_refused_unless_it_is_said_to_be_so(
    running: Consortium,
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3)
    keys = CoordinatorKeys(running.folder / "coordinator")
    with pytest.raises(PlanError, match=r"no roster.*--unauthenticated"):
        coordinate(plan, keys, FlowerRuntime(), host="127.0.0.1", port=1)
    exact = plan_for(SecureAggregation(), survivors=3)
    with pytest.raises(PlanError, match="an exact sum needs a roster"):
        coordinate(
            exact, keys, FlowerRuntime(), host="127.0.0.1", port=1, unauthenticated=True
        )
    assert "unauthenticated sites" in str(plan.claim("deployed", sites=3))
    signed = plan_for(DistributedDP("1"), survivors=3, roster=running.roster)
    assert "unauthenticated sites" not in str(signed.claim("deployed", sites=3))
