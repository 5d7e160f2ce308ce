"""The single pre-flight checks: what a check reports, whether this machine is fit, and whether the CSP can be reached.

A check has a name, whether it passed, what was found, and the fix where it is not. Of the machine: disk, memory, and
the library that multiplies matrices. Of the network: name, connection, certificate, answer, clock; each step needs the
one before, so the first that fails is the last. An HTTP CONNECT proxy in the environment is used as the transport would
use it.
"""

import base64
import os
import platform
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import scipy

from fedsvd import __version__
from fedsvd.errors import FedSVDError, NotAuthenticated
from fedsvd.protocol.budget import DEFAULT_MEMORY
from fedsvd.service.client import CspClient
from fedsvd.service.serve import SKEW
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import Dialling, PinnedConnection
from fedsvd.types import byte_size

_LEAST_DISK = 1 << 30
_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SECONDS = 10.0
_EXTRAS = {
    "data": ("pyarrow", "narwhals", "openpyxl"),
    "sql": ("duckdb", "pyarrow"),
    "formats": ("h5py", "zarr", "anndata"),
    "report": ("jinja2", "matplotlib"),
    "dashboard": ("starlette", "uvicorn"),
    "cluster": ("dask", "distributed"),
    "gpu": ("torch", "array_api_compat"),
}
_HOSTNAME, _ADDRESS, _EXPIRED, _NOT_YET, _PURPOSE = 62, 64, 10, 9, 26  # of OpenSSL's X509_V_ERR_*


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    text: str
    fix: str = ""


def passed(name: str, text: str) -> Check:
    return Check(name, True, text)


def failed(name: str, text: str, fix: str) -> Check:
    return Check(name, False, text, fix)


def of_error(name: str, error: FedSVDError) -> Check:
    """An error of ours is a finding: it has a fault and a fix already."""
    return Check(name, False, f"{error.code}: {error.fault}", error.at_home or error.fix)


def attempt(name: str, work: Callable[[], str]) -> Iterator[Check]:
    """The check that some work gets done; what it returns is shown."""
    try:
        yield passed(name, work())
    except FedSVDError as error:
        yield of_error(name, error)


# --- the machine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Host:
    """What there is to know of a machine; found out by ``this_machine``, made up in tests."""

    disk_free: int  # bytes, where the state folder is
    memory_free: int | None  # bytes; None where the system does not say
    cores: int  # that this process may use
    blas: list[dict[str, Any]] = field(default_factory=list)  # as threadpoolctl lists them
    wide: bool | None = None  # whether BLAS counts in 64 bits; None where it does not say
    setting: str = ""  # the environment variable that says how many threads there are, with its value
    installed: int = 0  # cores of the machine, of which the affinity of this process may leave it some
    compiled: bool = True  # whether the installation found a C compiler (ADR 0037)


def this_machine(folder: Path) -> Host:
    """The machine we run on, seen from a folder that is there."""
    from threadpoolctl import threadpool_info

    from fedsvd.engine.device import cores
    from fedsvd.kernels.library import compiled
    from fedsvd.linalg.pools import threads

    assert threads()  # it loads every BLAS there is; one that is not loaded yet is not listed
    blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
    built = scipy.show_config(mode="dicts")["Build Dependencies"]["blas"].get("openblas configuration", "")
    return Host(
        shutil.disk_usage(folder).free,
        _memory_free(),
        cores(),
        blas,
        "USE64BITINT" in built if built else None,
        next((f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ), ""),
        os.cpu_count() or 0,
        compiled() is not None,
    )


def examine_machine(machine: Host, memory: int, disk: int = 0, of: str = "the kit's state") -> Iterator[Check]:
    """Whether a machine has a budget of ``memory`` bytes, and write ``disk`` bytes where ``of`` is."""
    yield _disk(machine.disk_free, max(disk, _LEAST_DISK), of)
    yield _memory(machine.memory_free, memory)
    yield _blas(machine)


def examine_installation(folder: Path) -> Iterator[Check]:
    """What is installed on this machine, for a person without a kit: versions, compiled loops, BLAS, GPU, extras."""
    versions = [f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    yield passed("versions", f"fedsvd {__version__}, Python {platform.python_version()}, {', '.join(versions)}")
    machine = this_machine(folder)
    loops = "compiled" if machine.compiled else "by NumPy: install fedsvd again where there is a C compiler, for speed"
    yield passed("loops over words", loops)
    yield from examine_machine(replace(machine, compiled=True), DEFAULT_MEMORY, of="this folder")
    yield passed("GPU", _gpu())
    for extra, modules in _EXTRAS.items():
        lacking = [name for name in modules if find_spec(name) is None]
        text = "installed" if not lacking else f"not installed ({', '.join(lacking)}): pip install 'fedsvd[{extra}]'"
        yield passed(f"extra {extra}", text)


def _gpu() -> str:
    """Which device a study could name, without loading PyTorch where there is no driver."""
    if not Path("/dev/nvidiactl").exists() or find_spec("torch") is None:
        return "none found; studies compute with NumPy"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ", ".join(torch.cuda.get_device_name(i) for i in range(count)) or "a driver, and no device for PyTorch"


def _disk(free: int, needed: int, of: str) -> Check:
    text = f"{byte_size(free)} free where {of} is"
    if free < needed:
        return failed("disk", f"{text}, {byte_size(needed)} are wanted", "free space, or move it to a larger disk")
    return passed("disk", text)


def _memory(free: int | None, needed: int) -> Check:
    if free is None:
        return passed("memory", f"the system does not say; a job may use {byte_size(needed)}")
    text = f"{byte_size(free)} free, a job may use {byte_size(needed)}"
    if free < needed:
        return failed("memory", text, "stop other programs, or lower the job's budget: [job] memory")
    return passed("memory", text)


def _blas(machine: Host) -> Check:
    if not machine.blas:
        return failed(
            "BLAS", "NumPy has no fast BLAS: matrices take many times longer", "install NumPy from PyPI or conda-forge"
        )
    found = next((each for each in machine.blas if "scipy.libs" in each.get("filepath", "")), machine.blas[0])
    threads = int(found["num_threads"])
    wide = {True: "64-bit sizes", False: "32-bit sizes: large matrices are cut", None: "sizes not reported"}[
        machine.wide
    ]
    of = f" of {machine.installed}, by its affinity" if machine.installed > machine.cores else ""
    text = f"{found['internal_api']} {found.get('version')}, {threads} threads on {machine.cores} cores{of}, {wide}"
    if machine.setting:
        text += f"; {machine.setting}"
    if len(machine.blas) > 1:
        text += f"; SciPy's of {len(machine.blas)}, so that they do not take each other's cores"
    if not machine.compiled:
        text += "; loops over words by NumPy: with a C compiler, and fedsvd installed again, uploads are quicker"
    if threads > machine.cores:
        return failed("BLAS", text, f"threads in each other's way: export OPENBLAS_NUM_THREADS={machine.cores}")
    return passed("BLAS", text)


def _memory_free() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None


# --- the way to the CSP -----------------------------------------------------------------------------------------------


def examine_network(site: Site, address: str) -> Iterator[Check]:
    """One check after the other, up to the first that fails."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        yield failed("address", f"{address!r} is not host:port", 'site.toml: [csp] address = "csp.example.org:7443"')
        return
    yield passed("address", address)
    for check in _reach(site, host, int(port)):
        yield check
        if not check.ok:
            return
    yield from _questions(site, site.dialling(address))


def proxy_for(host: str, environment: dict[str, str]) -> str | None:
    """The proxy that the transport takes to a host: gRPC's rules, where a shorter name excludes those below it."""
    excluded = environment.get("no_grpc_proxy") or environment.get("no_proxy") or ""
    names = [name.strip().lstrip(".") for name in excluded.split(",") if name.strip()]
    if any(host == name or host.endswith(f".{name}") for name in names):
        return None
    given = (environment.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy"))
    return next(filter(None, given), None)


def _reach(site: Site, host: str, port: int) -> Iterator[Check]:
    proxy = proxy_for(host, dict(os.environ))
    where, where_port = host, port
    if proxy is not None:
        parts = urlsplit(proxy)
        where, where_port = parts.hostname or "", parts.port or 3128
    through = "" if proxy is None else f", the proxy on the way to {host}"
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(where, where_port, type=socket.SOCK_STREAM)}
    except OSError:
        yield failed("DNS", f"the name {where}{through} is not known here", "check the name, or ask your network team")
        return
    yield passed("DNS", f"{where}{through} is {', '.join(sorted(found))}")
    try:
        line = socket.create_connection((where, where_port), _SECONDS)
    except OSError as error:
        why = error.strerror or type(error).__name__
        fix = f"let connections out to {where}:{where_port}, and check that the CSP runs; only the CSP listens"
        yield failed("TCP", f"no connection to {where}:{where_port}{through}: {why}", fix)
        return
    with line:
        if proxy is not None and (refusal := _connect(line, host, port, proxy)):
            yield failed("TCP", f"the proxy {where} refuses {host}:{port}: {refusal}", "ask for this destination")
            return
        yield passed("TCP", f"{host}:{port} takes connections")
        yield from _certificate(site, line, host)


def _connect(line: socket.socket, host: str, port: int, proxy: str) -> str:
    """Ask the proxy for a tunnel; its refusal, or nothing."""
    words, login = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"], urlsplit(proxy)
    if login.username is not None:
        pair = f"{unquote(login.username)}:{unquote(login.password or '')}".encode()
        words.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
    try:
        line.sendall(("\r\n".join(words) + "\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < 1 << 16:
            more = line.recv(4096)
            if not more:
                break
            answer += more
    except OSError as error:
        return error.strerror or type(error).__name__
    status = answer.partition(b"\r\n")[0].decode("latin-1")
    return "" if " 200" in status else status or "it closed the connection"


def _certificate(site: Site, line: socket.socket, host: str) -> Iterator[Check]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=site.kit.ca_pem.decode())
    context.load_cert_chain(site.kit.certificate_path, site.kit.key_path)
    try:
        with context.wrap_socket(line, server_hostname=host) as secured:
            shown = secured.getpeercert(binary_form=True) or b""
            with suppress(OSError):
                secured.unwrap()
    except ssl.SSLCertVerificationError as error:
        yield _unverified(host, error)
        return
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or type(error).__name__
        fix = "something else listens there, or a firewall opens TLS: the connection must reach the CSP untouched"
        yield failed("TLS", f"no TLS with {host}: {why}", fix)
        return
    yield passed("TLS", f"the certificate of {host} is of this federation")
    try:
        identity = site.expect_csp(shown)
    except NotAuthenticated as error:
        yield of_error("role", error)
        return
    yield passed("role", f"it is {identity}")


def _unverified(host: str, error: ssl.SSLCertVerificationError) -> Check:
    if error.verify_code in (_HOSTNAME, _ADDRESS):
        fix = f"reach the CSP under a name it asked for, or let it renew: fedsvd join renew --address {host}"
        return failed("SAN", f"the CSP's certificate is not for {host}", fix)
    if error.verify_code in (_EXPIRED, _NOT_YET):
        what = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
        return failed("TLS", f"the CSP's certificate {what}, by this clock", "let the CSP renew it, or set the clock")
    if error.verify_code == _PURPOSE:
        return failed("role", f"{host} shows a certificate that is not a CSP's", "check the address")
    fix = "check the address; a firewall that opens TLS must let this connection through untouched"
    return failed("TLS", f"{host} is not of this federation: {error.verify_message}", fix)


def _questions(site: Site, dialling: Dialling) -> Iterator[Check]:
    client = CspClient(PinnedConnection(replace(dialling, channels=1, patience=_SECONDS)))
    try:
        clock = client.now()
        here = datetime.now(UTC)
    except FedSVDError as error:
        fix = error.fix or "ask the operator of the CSP, whose log says more"
        yield failed("answer", f"{error.code}: {error.fault}", fix)
        return
    finally:
        client.close()
    yield passed("answer", f"the CSP knows us as {site.caller}")
    apart = (here - datetime.fromisoformat(clock.now)).total_seconds()
    text = f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} the CSP's"
    if abs(apart) > SKEW:
        yield failed("clock", f"this clock is {text}", "set both clocks by NTP: certificates are valid by the clock")
    else:
        yield passed("clock", text)
    if clock.fedsvd != __version__:
        yield failed("version", f"fedsvd {__version__} here, {clock.fedsvd} at the CSP", "install the same everywhere")
    else:
        yield passed("version", f"fedsvd {__version__} here and there")
