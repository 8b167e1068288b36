"""A session of many signed sites over the HTTPS port: seconds, bytes, and whose they are.

The coordinator is this process; the sites are asyncio clients in a few others, each with
an identity and a ledger of its own, and the protocol's real masks, noise and signatures.
What the coordinator's two threads take says what the port costs beside the protocol.

    python bench/many_sites.py [--sites 3 100 1000] [--processes 2]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import ssl
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.file import dumps, loads
from discreet.plan.plan import recommend
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator, StepReport
from discreet.session.messages import Kind, Message
from discreet.session.rehearsal import PERMISSIVE
from discreet.session.retrying import Retrying
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.https.server import HttpsCoordinator
from discreet.transport.https.signing import MESSAGES, Signer
from discreet.transport.keys import CA, CoordinatorKeys, new_coordinator

BINS = 64
_spawn = multiprocessing.get_context("spawn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[3, 100, 1000])
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; DistributedDP, {BINS} bins"
    )
    print(
        "sites  connect s  session s  port CPU s  protocol CPU s  requests  KB a site  MB"
    )
    for sites in chosen.sites:
        one_session(sites, chosen.processes)


def one_session(sites: int, processes: int) -> None:
    """Run one session and print its row."""
    secrets = [SYSTEM(32) for _ in range(sites)]
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as place:
        new_coordinator(Path(place) / "coordinator", [LOOPBACK])
        keys = CoordinatorKeys(Path(place) / "coordinator")
        plan = recommend(
            PublicFacts(200 * sites, 0.3),
            DistributedDP("1"),
            edges=Warped(BINS),
            cohort=Cohort(max(3, int(0.9 * sites))),
        )
        members = tuple(
            Member(f"s{i}", _identity(secret).public_key().public_bytes_raw())
            for i, secret in enumerate(secrets)
        )
        own = keys.identity().public_key().public_bytes_raw()
        plan = replace(plan, roster=Roster(members, own))
        # A roster is kept in the order of its keys: give each site its own secret.
        port, known = free_port(), keys.admitted(plan)
        parts = [secrets[i::processes] for i in range(processes)]
        results = _spawn.Queue()
        with HttpsCoordinator().listen(
            keys, plan, known, host=LOOPBACK, port=port, vector_bytes=10**6
        ) as mailbox:
            began = time.monotonic()
            workers = [
                _spawn.Process(
                    target=_be_sites,
                    args=(part, dumps(plan), keys.folder, port, results),
                )
                for part in parts
            ]
            for worker in workers:
                worker.start()
            while len(mailbox.connected()) < sites:
                mailbox.wait(0.05)
            connected = time.monotonic()
            server = next(t for t in threading.enumerate() if t.name == "port")
            before = _cpu(server), time.thread_time()
            steps: list[StepReport] = []
            releases = Coordinator(
                plan,
                list(range(1, sites + 1)),
                Retrying(mailbox, 600, sleep=mailbox.wait),
                identity=keys.identity(),
                watch=steps.append,
            ).run()
            done = time.monotonic()
            port_cpu, protocol_cpu = (
                _cpu(server) - before[0],
                time.thread_time() - before[1],
            )
        counts: Counter[str] = sum((results.get() for _ in workers), Counter())
        for worker in workers:
            worker.join()
        if releases[-1].contributors != sites:
            raise SystemExit(f"{releases[-1].contributors} of {sites} sites")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{sites:>5}  {connected - began:>9.2f}  {done - connected:>9.2f}  "
        f"{port_cpu:>10.2f}  {protocol_cpu:>14.2f}  {counts['requests']:>8}  "
        f"{counts['bytes'] / sites / 1000:>9.1f}  {peak:>3}",
        flush=True,
    )


def _cpu(thread: threading.Thread) -> float:
    """Return the CPU seconds of a thread of this process."""
    fields = (
        Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rsplit(")", 1)[1]
    )
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _identity(secret: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(secret)


def _be_sites(
    secrets: list[bytes], text: str, folder: Path, port: int, results: object
) -> None:
    plan, context = loads(text), ssl.create_default_context(cafile=folder / CA)
    counts: Counter[str] = Counter()

    async def be_site(secret: bytes, http: httpx2.AsyncClient) -> None:
        rng = np.random.default_rng(list(secret))
        labels = rng.random(200) < 0.3
        examples = Examples(np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1), labels)
        site = Site(
            lambda _: examples,
            PERMISSIVE,
            Ledger.new(folder / f"{secret.hex()}.sqlite"),
            SYSTEM,
            InMemory(),
            plan,
            _identity(secret),
        )
        signer, state, body = Signer(_identity(secret), plan.digest().hex()), b"", b""
        while True:
            headers = signer.headers("POST", MESSAGES, body)
            try:
                reply = await http.post(MESSAGES, content=body, headers=headers)
            except httpx2.HTTPError:
                await asyncio.sleep(0.1)
                continue
            counts["requests"] += 1
            counts["bytes"] += len(body) + len(reply.content)
            body = b""
            if reply.status_code == 200:
                message = Message.decode(reply.content)
                state, answer = site.answer(state, message, report=print)
                body = answer.encode()
                if message.kind is Kind.END:
                    headers = signer.headers("POST", MESSAGES, body)
                    with suppress(httpx2.HTTPError):  # the port may be closed already
                        await http.post(MESSAGES, content=body, headers=headers)
                    return
            elif reply.status_code != 204:
                raise SystemExit(f"status {reply.status_code}: {reply.text}")

    async def be_all() -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx2.AsyncClient(
            base_url=f"https://{LOOPBACK}:{port}",
            verify=context,
            timeout=120,
            limits=limits,
        ) as http:
            await asyncio.gather(*(be_site(secret, http) for secret in secrets))

    resource.setrlimit(
        resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
    )
    asyncio.run(be_all())
    results.put(counts)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
