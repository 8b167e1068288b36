"""A session over NVFlare: the coordinator is a Controller, a site an Executor.

Tried with NVFlare 2.9 in its simulator (``python run_simulator.py``). The site's policy and
ledger are files of its operator, named in the site's own configuration, never by the job.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable
from pathlib import Path

from nvflare.apis.controller_spec import ClientTask, SendOrder, Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

import discreet
from discreet.entropy import SYSTEM
from discreet.plan import file as planfile
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.coordinator import Coordinator, evaluation_of
from discreet.session.messages import Message
from discreet.session.retrying import Lost, Retrying
from discreet.session.site import Site
from discreet.session.state import memory_beside
from discreet.transport.joining import answer_once, kept_beside, report_on_stderr
from discreet.transport.keys import SiteKeys, read_identity

TASK = "discreet"
RAW = "message"


class TaskTransport:
    """Carries messages as tasks; a result that is no message counts as lost."""

    def __init__(self, controller: Controller, context: FLContext) -> None:
        self.controller, self.context = controller, context
        self.names = sorted(c.name for c in controller._engine.get_clients())  # noqa: SLF001
        self._arrived: queue.SimpleQueue[tuple[int, Message | Lost]] = (
            queue.SimpleQueue()
        )

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        """Give a site a task."""

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            del fl_ctx
            raw = (client_task.result or {}).get(RAW)
            answer: Message | Lost = Lost(message.digest())
            if isinstance(raw, bytes):
                answer = Message.decode(raw)
            self._arrived.put((node, answer))

        task = Task(
            TASK,
            Shareable({RAW: message.encode()}),
            timeout=max(1, int(seconds)),
            result_received_cb=received,
        )
        targets = [self.names[node - 1]]
        self.controller.send(task, self.context, targets, SendOrder.ANY)

    def receive(self) -> Iterable[tuple[int, Message | Lost]]:
        """Return what has arrived since the last call."""
        while not self._arrived.empty():
            yield self._arrived.get()


class DiscreetController(Controller):
    """Runs a plan over the clients of a job, and writes the evaluation."""

    def __init__(self, plan: str, report: str, identity: str = "") -> None:
        super().__init__()
        self.plan, self.report, self.identity = plan, report, identity

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Need nothing before the job."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Need nothing after it."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the session."""
        plan = planfile.loads(Path(self.plan).read_text())
        while len(self._engine.get_clients()) < plan.cohort.min_survivors:
            if abort_signal.triggered:
                return
            time.sleep(0.2)
        transport = TaskTransport(self, fl_ctx)
        signer = read_identity(Path(self.identity)) if self.identity else None
        session = Coordinator(
            plan,
            range(1, len(transport.names) + 1),
            Retrying(transport),
            identity=signer,
        )
        result = evaluation_of(plan, session.run())
        Path(self.report).write_text(str(result))


class DiscreetExecutor(Executor):
    """Answers the messages of sessions that the site's policy allows.

    ``folder`` is what ``discreet join`` made: keys, policy and ledger; ``{site}`` in it and
    in ``scores`` is the client's name.
    """

    def __init__(self, folder: str, scores: str) -> None:
        super().__init__()
        self.folder, self.scores = folder, scores

    def execute(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
    ) -> Shareable:
        """Answer one message; the state is on disk before the answer leaves."""
        del task_name, abort_signal
        name = fl_ctx.get_identity_name()
        folder = Path(self.folder.format(site=name))
        ledger = folder / "ledger.sqlite"

        def site() -> Site:
            policy = policyfile.load(folder / "policy.toml")
            return Site(
                lambda _: discreet.read(self.scores.format(site=name)),
                policy,
                Ledger(ledger, limits=policy.limits()),
                SYSTEM,
                memory_beside(ledger),
                identity=SiteKeys(folder).identity(),
            )

        message = Message.decode(shareable[RAW])
        kept = kept_beside(ledger)
        reply = answer_once(site, message, kept=kept, report=report_on_stderr)
        return Shareable({RAW: reply.encode()})
