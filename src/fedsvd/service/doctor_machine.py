"""Whether this machine is fit: disk, memory, and the library that multiplies matrices."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scipy

from fedsvd.service.checks import Check, ill, well
from fedsvd.types import byte_size

_LEAST_DISK = 1 << 30
_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Machine:
    """What there is to know of a machine; found out by ``this_machine``, made up in tests."""

    disk_free: int  # bytes, where the state folder is
    memory_free: int | None  # bytes; None where the system does not say
    cores: int  # that this process may use
    blas: list[dict[str, Any]] = field(default_factory=list)  # as threadpoolctl lists them
    wide: bool | None = None  # whether BLAS counts in 64 bits; None where it does not say
    setting: str = ""  # the environment variable that says how many threads there are, with its value


def this_machine(folder: Path) -> Machine:
    """The machine we run on, seen from a folder that is there."""
    from threadpoolctl import threadpool_info

    from fedsvd.engine.device import cores
    from fedsvd.linalg.pools import threads

    assert threads()  # it loads every BLAS there is; one that is not loaded yet is not listed
    blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
    built = scipy.show_config(mode="dicts")["Build Dependencies"]["blas"].get("openblas configuration", "")
    return Machine(
        shutil.disk_usage(folder).free,
        _memory_free(),
        cores(),
        blas,
        "USE64BITINT" in built if built else None,
        next((f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ), ""),
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
    found = next((each for each in machine.blas if "scipy.libs" in each.get("filepath", "")), machine.blas[0])
    threads = int(found["num_threads"])
    wide = {True: "64-bit sizes", False: "32-bit sizes: large matrices are cut", None: "sizes not told"}[machine.wide]
    text = f"{found['internal_api']} {found.get('version')}, {threads} threads on {machine.cores} cores, {wide}"
    if machine.setting:
        text += f"; {machine.setting}"
    if len(machine.blas) > 1:
        text += f"; SciPy's of {len(machine.blas)}, so that they do not take each other's cores"
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
