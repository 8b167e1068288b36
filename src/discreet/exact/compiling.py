"""Compiling a program for the engine. Needs the ``mpc`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from discreet.exact.extra import load
from discreet.exact.program import RECIPROCALS, Program


@lru_cache(maxsize=8)
def compiled(program: Program) -> bytes:
    """Return a serialised executable, the same bytes for the same program."""
    spu, frontend = load("spu"), load("spu.utils.frontend")
    jax, numpy = load("jax"), load("numpy")
    inputs = program.inputs()
    visible = {True: spu.Visibility.VIS_PUBLIC, False: spu.Visibility.VIS_SECRET}
    # 64-bit integers for this trace alone: the process keeps its own setting.
    with load("jax.experimental").enable_x64():
        executable, _ = frontend.compile(
            frontend.Kind.JAX,
            function_of(program),
            [jax.ShapeDtypeStruct(i.shape, numpy.int64) for i in inputs],
            {},
            [i.name for i in inputs],
            [visible[i.source == "public"] for i in inputs],
            lambda _: list(program.output_names),
        )
    found: bytes = executable.SerializeToString()
    return found


def function_of(program: Program) -> Callable[..., Any]:
    """Return the program as one function of its inputs in order."""
    jnp, circuit = load("jax.numpy"), load("discreet.exact.circuit")
    names = [i.name for i in program.inputs()]
    ties = program.ties == "exact"

    def exact_areas(*values: Any) -> Any:
        by_name = dict(zip(names, values, strict=True))

        def all_of(kind: str, indices: Sequence[int]) -> list[Any]:
            return [by_name[f"{kind}{k}"] for k in indices]

        owners = range(len(program.sizes))
        keys = jnp.concatenate(all_of("keys", owners))
        labels = jnp.concatenate(all_of("labels", owners))
        if program.noisy:
            noise = [v for name, v in by_name.items() if name.startswith("noise")]
            return circuit.noisy_pair(keys, labels, noise, ties=ties)
        counted = all_of("count", owners) if program.padded else [program.rows]
        return circuit.areas(
            keys,
            labels,
            program.rows - sum(counted),
            *(by_name[name] for name in RECIPROCALS),
            metrics=program.metrics,
            ties=ties,
        )

    return exact_areas
