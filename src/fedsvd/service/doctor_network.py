"""Whether the CSP can be reached, is the CSP, and takes us in: name, connection, certificate, answer, clock.

Each step needs the one before, so the first that fails is the last. An HTTP CONNECT proxy in the environment is used as
the transport would use it.
"""

import base64
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from fedsvd import __version__
from fedsvd.errors import FedSVDError, NotAuthenticated
from fedsvd.service.api import CspClient
from fedsvd.service.checks import Check, ill, of_error, well
from fedsvd.service.process import SKEW
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import Dialling, PinnedConnection

_SECONDS = 10.0
_HOSTNAME, _ADDRESS, _EXPIRED, _NOT_YET, _PURPOSE = 62, 64, 10, 9, 26  # of OpenSSL's X509_V_ERR_*


def examine_network(site: Site, address: str) -> Iterator[Check]:
    """One check after the other, up to the first that fails."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        yield ill("address", f"{address!r} is not host:port", 'site.toml: [csp] address = "csp.example.org:7443"')
        return
    yield well("address", address)
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
    where, door = host, port
    if proxy is not None:
        parts = urlsplit(proxy)
        where, door = parts.hostname or "", parts.port or 3128
    through = "" if proxy is None else f", the proxy on the way to {host}"
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(where, door, type=socket.SOCK_STREAM)}
    except OSError:
        yield ill("DNS", f"the name {where}{through} is not known here", "check the name, or ask your network team")
        return
    yield well("DNS", f"{where}{through} is {', '.join(sorted(found))}")
    try:
        line = socket.create_connection((where, door), _SECONDS)
    except OSError as error:
        why = error.strerror or type(error).__name__
        fix = f"let connections out to {where}:{door}, and check that the CSP runs; only the CSP listens"
        yield ill("TCP", f"no connection to {where}:{door}{through}: {why}", fix)
        return
    with line:
        if proxy is not None and (refusal := _connect(line, host, port, proxy)):
            yield ill("TCP", f"the proxy {where} refuses {host}:{port}: {refusal}", "ask for this destination")
            return
        yield well("TCP", f"{host}:{port} takes connections")
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
    return "" if " 200" in status else status or "it hung up"


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
        yield ill("TLS", f"no TLS with {host}: {why}", fix)
        return
    yield well("TLS", f"the certificate of {host} is of this federation")
    try:
        identity = site.expect_csp(shown)
    except NotAuthenticated as error:
        yield of_error("role", error)
        return
    yield well("role", f"it is {identity}")


def _unverified(host: str, error: ssl.SSLCertVerificationError) -> Check:
    if error.verify_code in (_HOSTNAME, _ADDRESS):
        fix = f"reach the CSP under a name it asked for, or let it renew: fedsvd join renew --address {host}"
        return ill("SAN", f"the CSP's certificate is not for {host}", fix)
    if error.verify_code in (_EXPIRED, _NOT_YET):
        what = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
        return ill("TLS", f"the CSP's certificate {what}, by this clock", "let the CSP renew it, or set the clock")
    if error.verify_code == _PURPOSE:
        return ill("role", f"{host} shows a certificate that is not a CSP's", "check the address")
    fix = "check the address; a firewall that opens TLS must let this connection through untouched"
    return ill("TLS", f"{host} is not of this federation: {error.verify_message}", fix)


def _questions(site: Site, dialling: Dialling) -> Iterator[Check]:
    desk = CspClient(PinnedConnection(replace(dialling, channels=1, patience=_SECONDS)))
    try:
        told = desk.ask("now")
        here = datetime.now(UTC)
    except FedSVDError as error:
        fix = error.fix or "ask the operator of the CSP, whose log says more"
        yield ill("answer", f"{error.code}: {error.fault}", fix)
        return
    finally:
        desk.close()
    yield well("answer", f"the CSP knows us as {site.caller}")
    apart = (here - datetime.fromisoformat(told["now"])).total_seconds()
    text = f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} the CSP's"
    if abs(apart) > SKEW:
        yield ill("clock", f"this clock is {text}", "set both clocks by NTP: certificates are valid by the clock")
    else:
        yield well("clock", text)
    if told["fedsvd"] != __version__:
        yield ill("version", f"fedsvd {__version__} here, {told['fedsvd']} at the CSP", "install the same everywhere")
    else:
        yield well("version", f"fedsvd {__version__} here and there")
