"""Whether this machine is fit: disk, memory, and the library that multiplies matrices."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.service.checks import Check, ill, well
from fedsvd.types import byte_size

_LEAST_DISK = 1 << 30


@dataclass(frozen=True)
class Machine:
    """What there is to know of a machine; found out by ``this_machine``, made up in tests."""

    disk_free: int  # bytes, where the state folder is
    memory_free: int | None  # bytes; None where the system does not say
    cores: int  # that this process may use
    blas: list[dict[str, Any]] = field(default_factory=list)  # as threadpoolctl lists them
    wide: bool | None = None  # whether BLAS counts in 64 bits; None where it does not say


def this_machine(folder: Path) -> Machine:
    """The machine we run on, seen from a folder that is there."""
    from threadpoolctl import threadpool_info

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"].get("openblas configuration", "")
    return Machine(
        shutil.disk_usage(folder).free, _memory_free(), cores, blas, "USE64BITINT" in built if built else None
    )


def examine_machine(machine: Machine, memory: int, disk: int = 0) -> Iterator[Check]:
    """Whether a machine can keep to a budget of ``memory`` bytes, and write ``disk`` bytes."""
    yield _disk(machine.disk_free, max(disk, _LEAST_DISK))
    yield _memory(machine.memory_free, memory)
    yield _blas(machine)


def _disk(free: int, needed: int) -> Check:
    text = f"{byte_size(free)} free where the kit's state is"
    if free < needed:
        return ill("disk", f"{text}, {byte_size(needed)} are wanted", "free space, or move the kit to a larger disk")
    return well("disk", text)


def _memory(free: int | None, needed: int) -> Check:
    if free is None:
        return well("memory", f"the system does not say; a job may use {byte_size(needed)}")
    text = f"{byte_size(free)} free, a job may use {byte_size(needed)}"
    if free < needed:
        return ill("memory", text, "stop other programs, or lower the job's budget: [job] memory")
    return well("memory", text)


def _blas(machine: Machine) -> Check:
    if not machine.blas:
        return ill(
            "BLAS", "NumPy has no fast BLAS: matrices take many times longer", "install NumPy from PyPI or conda-forge"
        )
    found = machine.blas[0]
    threads = max(int(each["num_threads"]) for each in machine.blas)
    wide = {True: "64-bit sizes", False: "32-bit sizes: large matrices are cut", None: "sizes not told"}[machine.wide]
    text = f"{found['internal_api']} {found.get('version')}, {threads} threads on {machine.cores} cores, {wide}"
    if threads > machine.cores:
        return ill("BLAS", text, f"threads in each other's way: export OPENBLAS_NUM_THREADS={machine.cores}")
    return well("BLAS", text)


def _memory_free() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None
