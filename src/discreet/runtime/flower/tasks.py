"""The site's and the coordinator's work, done by our own code and no other.

Flower usually runs the app that whoever starts a run has sent along. A site that
did so would let the coordinator run code beside its data, and no protocol would
help. So both ends take their tasks from Flower and answer them in this process;
the app bundle that a run needs is empty and is never unpacked.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import httpx
from flwr.app import Error, Message
from flwr.cli.build import build_fab_from_files
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
)
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import (
    pull_task_input,
    push_message,
    push_task_output,
)

from discreet.runtime.flower.door import Knocking
from discreet.runtime.flower.keys import SiteKeys
from discreet.runtime.flower.processes import FlowerProcess, ProcessError, supernode
from discreet.site.policy import DECLINED

POLL_SECONDS: Final = 0.2
RECONNECT_SECONDS: Final = 20.0
"""How long a lost SuperLink is waited for."""
CONNECT_SECONDS: Final = 60.0
"""How long a site that is turned away tries again."""
LINGER_SECONDS: Final = 2.0
"""How long a site stays after its last answer: Flower forgets the answers of a node
that has left, even those that it has."""
_CONNECTED: Final = "SuperNode ID: "
_SENT: Final = "Sent successfully"
_SEND_SECONDS: Final = 30.0
_ACQUIRE: Final = frozenset({"/flwr.proto.Runtime/AcquireTask"})
_DECLINED: Final = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, DECLINED)
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
    """A grid that gives up on a SuperLink that stays away."""

    def __init__(self, address: str, certificates: bytes, token: str) -> None:
        super().__init__(address, root_certificates=certificates, token=token)
        self._retry_invoker.max_time = RECONNECT_SECONDS

    @property
    def runtime(self) -> RuntimeHttpClient:
        """The connection to the SuperLink."""
        return self._runtime_client


def register(
    link: FlowerProcess, certificates: bytes, nodes: dict[str, bytes]
) -> dict[str, int]:
    """Let these node keys connect, and no others; return Flower's number of each."""
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


class SilenceError(ProcessError):
    """The coordinator has not been heard of for as long as a site waits."""


def serve(
    keys: SiteKeys,
    address: str,
    app: ClientApp,
    *,
    until: Callable[[], bool],
    wait_seconds: float,
) -> None:
    """Connect a site and answer with an app until told to stop.

    A coordinator may be about to start, or to let this site in: so a SuperNode that
    is turned away tries again for a while. One that was let in and lost its
    connection tries again as long as the site waits for a word: the coordinator may
    come back and go on.

    Raises:
        ProcessError: it could not connect.
        SilenceError: no message came for that long.
    """
    last = time.monotonic()
    turned_away = last + min(CONNECT_SECONDS, wait_seconds)
    known = False
    while True:
        with supernode(keys, address=address) as node:
            tasks = SiteTasks(node, app, last)
            try:
                return tasks.run(until=until, wait_seconds=wait_seconds)
            except SilenceError:
                raise
            except ProcessError:
                known = known or bool(node.said(_CONNECTED))
                last = tasks.last
                patience = last + wait_seconds if known else turned_away
                if time.monotonic() > patience:
                    raise
        time.sleep(POLL_SECONDS)


@dataclass
class SiteTasks:
    """Takes a site's tasks from its SuperNode and answers them with one app.

    ``last`` is when a word of the coordinator came last.
    """

    node: FlowerProcess
    app: ClientApp
    last: float

    def run(self, *, until: Callable[[], bool], wait_seconds: float) -> None:
        """Answer messages until told to stop.

        Raises:
            ProcessError: the SuperNode ended.
            SilenceError: no message came for that long.
        """
        answered = 0
        with _executor(self.node, None) as executor:
            while not until():
                self.node.check()
                if self._answer_or_fail(executor):
                    answered += 1
                    self.last = time.monotonic()
                elif time.monotonic() - self.last > wait_seconds:
                    raise SilenceError(
                        f"no word from the coordinator for {wait_seconds:.0f} s; "
                        "nothing more is sent"
                    )
                time.sleep(POLL_SECONDS)
        with suppress(ProcessError):  # the last letter was read: Flower may be gone
            self._wait_until_sent(answered)
            time.sleep(LINGER_SECONDS)

    def _wait_until_sent(self, answers: int) -> None:
        """Let the SuperNode pass on the last answer before it is ended."""
        deadline = time.monotonic() + _SEND_SECONDS
        while self.node.said(_SENT) < answers and time.monotonic() < deadline:
            self.node.check()
            time.sleep(POLL_SECONDS)

    def _answer_or_fail(self, executor: RuntimeHttpClient) -> bool:
        try:
            return self._answer_next(executor)
        except httpx.HTTPError as error:
            self.node.check_ending()
            raise ProcessError(
                f"the SuperNode does not answer ({type(error).__name__})"
            ) from error

    def _answer_next(self, executor: RuntimeHttpClient) -> bool:
        asked = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        acquired = executor.AcquireTask(asked)
        if not acquired.token:
            return False
        client = _client(self.node, None, RuntimeTokenHttpInterceptor(acquired.token))
        heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
        heartbeat.start()
        try:
            message, context, _, _ = pull_task_input(client)
            try:
                reply = self.app(message, context)
            except Exception:  # noqa: BLE001 - a stranger's message must not end us
                reply = Message(_DECLINED, reply_to=message)
            push_message(client, reply, context)
            _stop(heartbeat)  # a finished task has no heartbeat
            push_task_output(client, context, SubStatus.COMPLETED, "")
        finally:
            _stop(heartbeat)
            client.close()
        return True


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
        time.sleep(POLL_SECONDS)
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
def _executor(
    process: FlowerProcess, certificates: bytes | None
) -> Iterator[RuntimeHttpClient]:
    signer = SuperExecAuthHttpInterceptor(
        master_secret=process.secret, protected_methods=_ACQUIRE
    )
    client = _client(process, certificates, signer)
    try:
        yield client
    finally:
        client.close()


def _client(
    process: FlowerProcess,
    certificates: bytes | None,
    proof: RuntimeTokenHttpInterceptor | SuperExecAuthHttpInterceptor,
) -> RuntimeHttpClient:
    return RuntimeHttpClient.from_server_address(
        process.runtime,
        insecure=certificates is None,
        root_certificates=certificates,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), proof],
    )
