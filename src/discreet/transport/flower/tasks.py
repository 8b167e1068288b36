"""The coordinator's run at its SuperLink, done by our own code and no other.

Flower usually starts the app that a run brings along. Here the coordinator takes the
run's task from Flower and does it in this process; the app bundle that a run needs is
empty and is never unpacked.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Final

import httpx
from flwr.app import Message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
)
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from discreet.session.retrying import SHORTEST_PAUSE
from discreet.transport.flower.door import Knocking
from discreet.transport.flower.node import pull_parts
from discreet.transport.flower.processes import FlowerProcess, ProcessError

RECONNECT_SECONDS: Final = 20.0
"""How long a lost SuperLink is waited for."""
_ACQUIRE: Final = frozenset({"/flwr.proto.Runtime/AcquireTask"})
_EMPTY_APP: Final = b"""\
[project]
name = "discreet-session"
version = "1.0.0"
description = "Names the session; holds no code"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "discreet"

[tool.flwr.app.components]
serverapp = "none:app"
clientapp = "none:app"

[tool.flwr.app.config]
"""


class PatientGrid(HttpGrid):
    """A grid that gives up on a SuperLink that stays away, and soon on half an answer.

    Whose answer does not come in full is asked again.
    """

    def __init__(self, address: str, certificates: bytes, token: str) -> None:
        super().__init__(address, root_certificates=certificates, token=token)
        self._retry_invoker.max_time = RECONNECT_SECONDS

    @property
    def runtime(self) -> RuntimeHttpClient:
        """The connection to the SuperLink."""
        return self._runtime_client

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers that have come in full."""
        pulled = self.runtime.PullMessages(
            PullAppMessagesRequest(message_ids=message_ids)
        )
        answers = [
            pull_parts(self.runtime, self.node, head.metadata.run_id, tree)
            for head, tree in zip(
                pulled.messages_list, pulled.message_object_trees, strict=True
            )
        ]
        return [answer for answer in answers if answer is not None]


def register(
    link: FlowerProcess, certificates: bytes, nodes: dict[str, bytes]
) -> dict[str, int]:
    """Let these node keys connect, and no others; return Flower's number of each."""
    link.wait()
    with _control(link, certificates) as control:
        return {
            name: control.RegisterNode(
                RegisterNodeRequest(public_key=key, name=name)
            ).node_id
            for name, key in nodes.items()
        }


@contextmanager
def coordinator_grid(link: FlowerProcess, certificates: bytes) -> Iterator[Grid]:
    """Start a run at a SuperLink of ours; yield the grid that reaches its nodes."""
    fab = _empty_app()
    with _control(link, certificates) as control:
        run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id
    if not run_id:
        raise ProcessError("the SuperLink did not start a run")
    with _executor(link, certificates) as executor:
        token = _server_token(link, executor, run_id)
    grid = PatientGrid(link.runtime, certificates, token)
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(grid.runtime))
    heartbeat.start()
    status = SubStatus.FAILED
    try:
        started = grid.runtime.PullTaskInput(PullTaskInputRequest())
        # Flower's messages take their sender from here.
        TaskIdentity.task_id = started.task_id
        TaskIdentity.run_id = started.run.run_id
        TaskIdentity.node_id = started.context.node_id
        grid.set_run(run_from_proto(started.run))
        yield grid
        status = SubStatus.COMPLETED
    except (httpx.HTTPError, RunNotRunningException) as error:
        link.check_ending()
        raise ProcessError(
            f"the SuperLink does not answer ({type(error).__name__}); nothing more "
            "was opened"
        ) from error
    finally:
        _stop(heartbeat)
        with suppress(httpx.HTTPError):
            grid.runtime.PushTaskOutput(PushTaskOutputRequest(sub_status=status))
        grid.close()


def _stop(heartbeat: HeartbeatSender) -> None:
    if heartbeat.is_running:  # it ends by itself when Flower is gone
        heartbeat.stop()


def _empty_app() -> Fab:
    with warnings.catch_warnings():
        # Flower asks for file patterns by a name that their library gave up.
        warnings.simplefilter("ignore", DeprecationWarning)
        content, _ = build_fab_from_files(
            {"pyproject.toml": _EMPTY_APP, "none.py": b'"""Empty."""\n'}
        )
    return Fab(sha256(content).hexdigest(), content, {})


def _server_token(link: FlowerProcess, executor: RuntimeHttpClient, run_id: int) -> str:
    """Take the task of our own run; a stranger's run is left alone."""
    asked = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    until = time.monotonic() + RECONNECT_SECONDS
    while time.monotonic() < until:
        link.check()
        acquired = executor.AcquireTask(asked)
        if acquired.token and acquired.task.run_id == run_id:
            token: str = acquired.token
            return token
        time.sleep(SHORTEST_PAUSE)
    raise ProcessError("the SuperLink did not hand out the run's task")


@contextmanager
def _control(link: FlowerProcess, certificates: bytes) -> Iterator[ControlHttpClient]:
    client = ControlHttpClient.from_server_address(
        link.runtime,
        insecure=False,
        root_certificates=certificates,
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="flwr CLI"),
            Knocking(link.secret),
        ],
    )
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _executor(link: FlowerProcess, certificates: bytes) -> Iterator[RuntimeHttpClient]:
    signer = SuperExecAuthHttpInterceptor(
        master_secret=link.secret, protected_methods=_ACQUIRE
    )
    version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
    client = RuntimeHttpClient.from_server_address(
        link.runtime,
        insecure=False,
        root_certificates=certificates,
        interceptors=[version, signer],
    )
    try:
        yield client
    finally:
        client.close()
