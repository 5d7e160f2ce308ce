"""Where the arithmetic runs: NumPy on the CPU, or a device behind the same kernels (ADR 0020).

A device is a place for arrays. The kernels of this package ask their arrays for the library they belong to, so a role
computes where its arrays lie: what this file adds is opening a device by name, and moving panels to it and back. On
CUDA the moves go through pinned memory on a stream of their own, so that the next panel travels while this one is
computed with. Precision is double everywhere. Which device a role uses is its own affair and in no plan.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedsvd.errors import ConfigError, MissingExtra, NoDevice
from fedsvd.linalg.backend import like, namespace, to_numpy
from fedsvd.types import Array, Float

CPU = "cpu"
_KNOWN = "cpu, cuda, cuda:0 (or another number), cupy, torch-cpu"
_SHARE = 0.9  # of the memory that was free when the device was opened
_HOST_MEMORY = 1 << 30  # what panels may take together where the device is the CPU under another name

Moved = Callable[[], Array]  # waits for a move to have ended; the array, on the device


@dataclass(frozen=True, repr=False)
class Device:
    """A place for arrays: ``like`` is an empty one there, ``memory`` the bytes that panels may take together."""

    name: str
    like: Array
    memory: int = _HOST_MEMORY
    description: str = "the CPU"

    def __repr__(self) -> str:
        return f"Device({self.name})"

    @property
    def xp(self) -> Any:
        """The array namespace of its arrays."""
        return namespace(self.like)

    def put(self, A: NDArray[Any]) -> Array:
        """The same numbers on the device."""
        return self.move(A)()

    def move(self, A: NDArray[Any]) -> Moved:
        """``put``, begun but perhaps not ended: call what comes back when the array is needed."""
        moved = like(A, self.like)
        return lambda: moved

    def get(self, A: Array) -> NDArray[Any]:
        """The same numbers as a NumPy array of its own memory."""
        return np.array(to_numpy(A))

    def buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised NumPy array from which moves are fastest."""
        return np.empty(shape, dtype)

    def synchronise(self) -> None:
        """Wait until everything asked of the device is done."""

    def ahead(self, panels: Iterable[NDArray[Any]]) -> Iterator[Array]:
        """The panels on the device, the next one on its way while the caller works on one."""
        waiting: Moved | None = None
        for panel in panels:
            following = self.move(panel)
            if waiting is not None:
                yield waiting()
            waiting = following
        if waiting is not None:
            yield waiting()


class _Cuda(Device):
    """An NVIDIA device through PyTorch: pinned host memory, and a stream of its own for moves to the device."""

    def __init__(self, name: str, torch: Any) -> None:
        device = torch.device(name)
        free, _ = torch.cuda.mem_get_info(device)
        empty = torch.empty((0,), dtype=torch.float64, device=device)
        super().__init__(name, empty, int(_SHARE * free), torch.cuda.get_device_name(device))
        object.__setattr__(self, "_torch", torch)
        object.__setattr__(self, "_moves", torch.cuda.Stream(device))
        object.__setattr__(self, "_under_way", deque())

    def move(self, A: NDArray[Any]) -> Moved:
        torch, stream, under_way = self._torch, self._moves, self._under_way  # type: ignore[attr-defined]
        pinned = self._pinned(A)
        with torch.cuda.stream(stream):
            moved = torch.empty(pinned.shape, dtype=pinned.dtype, device=self.like.device)
            moved.copy_(pinned, non_blocking=True)
            arrived = stream.record_event()
        # What is being read must not be given back, and written to by another caller, before it has arrived. Threads
        # may come here at once: the one that takes an entry out looks at it itself.
        under_way.append((arrived, pinned))
        while under_way:
            oldest = under_way.popleft()
            if not oldest[0].query():
                under_way.appendleft(oldest)
                break

        def wait() -> Array:
            current = torch.cuda.current_stream(self.like.device)
            current.wait_event(arrived)
            # The allocator gives memory back by stream: it must know that this one reads what the other wrote.
            moved.record_stream(current)
            return moved

        return wait

    def _pinned(self, A: NDArray[Any]) -> Any:
        """A in pinned memory: itself where ``buffer`` made it, a copy elsewhere."""
        torch = self._torch  # type: ignore[attr-defined]
        if A.size and A.flags.writeable and A.flags.c_contiguous and A.dtype.name in _TORCH_NAMES:
            tensor = torch.from_numpy(A)
            if tensor.is_pinned():
                return tensor
        pinned = self.buffer(A.shape, A.dtype)
        np.copyto(pinned, A)
        return torch.from_numpy(pinned)

    def get(self, A: Array) -> NDArray[Any]:
        torch = self._torch  # type: ignore[attr-defined]
        host = torch.empty(A.shape, dtype=A.dtype, pin_memory=0 not in A.shape)
        host.copy_(A, non_blocking=True)
        torch.cuda.current_stream(self.like.device).synchronize()
        return host.numpy()  # type: ignore[no-any-return]

    def buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        torch = self._torch  # type: ignore[attr-defined]
        pinned = 0 not in shape  # of nothing there is nothing to pin
        return torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), pin_memory=pinned).numpy()  # type: ignore[no-any-return]

    def synchronise(self) -> None:
        self._torch.cuda.synchronize(self.like.device)  # type: ignore[attr-defined]


_TORCH_NAMES = frozenset({"float64", "float32", "int64", "int32", "int16", "uint8", "bool"})


def open_device(name: str | None) -> Device | None:
    """The device of this name; None for the CPU, where kernels run on NumPy as they are."""
    if name is None or name == CPU:
        return None
    if not isinstance(name, str):
        raise ConfigError(f"device is {name!r}", f"one of {_KNOWN}")
    kind, _, number = name.partition(":")
    if kind not in ("cuda", "cupy", "torch-cpu") or (number and not number.isdecimal()):
        raise ConfigError(f"device is {name!r}", f"one of {_KNOWN}")
    if kind == "cupy":
        return _cupy(name, int(number or 0))
    torch = _torch()
    if kind == "torch-cpu":
        return Device(name, torch.empty((0,), dtype=torch.float64), description="the CPU through PyTorch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= count:
        raise _absent(name, count)
    return _Cuda(f"cuda:{number or 0}", torch)


def _torch() -> Any:
    try:
        import array_api_compat  # noqa: F401  backend.namespace needs it
        import torch
    except ImportError as error:
        raise MissingExtra("a device needs PyTorch", "pip install 'fedsvd[gpu]'") from error
    return torch


def _cupy(name: str, number: int) -> Device:
    try:
        import array_api_compat  # noqa: F401
        import cupy
    except ImportError as error:
        raise MissingExtra('device = "cupy" needs CuPy', "pip install cupy-cuda12x array-api-compat") from error
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if number >= count:
        raise _absent(name, count)
    with cupy.cuda.Device(number) as device:
        free, _ = device.mem_info
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        return Device(name, cupy.empty((0,)), int(_SHARE * free), properties["name"].decode())


def _absent(name: str, count: int) -> NoDevice:
    found = "none was found" if count == 0 else f"{count} found, counted from 0"
    return NoDevice(f"there is no device {name!r} on this machine: {found}", 'set device = "cpu", or leave it out')


def host_or(device: Device | None, A: Float) -> Array:
    """A on the device, or A itself without one."""
    return A if device is None else device.put(A)
