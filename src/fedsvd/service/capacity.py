"""How much a CSP takes on unless its ``site.toml`` says otherwise: sessions at a time, open jobs of a researcher.

A session holds messages that wait to be read, a connection or more of every member, and computes. Too many at once end
each other: out of descriptors, out of memory, or so slow that members are taken for lost. Those beyond the number wait.
"""

from fedsvd.engine.device import cores
from fedsvd.engine.memory import main_memory

try:
    import resource
except ImportError:  # not POSIX
    resource = None  # type: ignore[assignment]

OPEN_JOBS = 100  # jobs of one researcher that are neither done nor stopped
_A_CORE = 4  # sessions: most of the time a session waits for its members
_BYTES = 512 << 20  # of main memory to each session: twice what the transport may hold of one
_DESCRIPTORS = 128  # to each session: four connections of each of thirty-two members
_MOST = 64


def most_sessions() -> int:
    """How many sessions run at the same time on this machine: by its cores, its memory and its descriptors."""
    bounds = [_MOST, _A_CORE * cores()]
    memory = main_memory()
    if memory is not None:
        bounds.append(memory // _BYTES)
    if resource is not None:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        bounds += [] if most == resource.RLIM_INFINITY else [most // _DESCRIPTORS]
    return max(1, min(bounds))
