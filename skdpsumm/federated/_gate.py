"""The one port that strangers reach: it passes the calls of owners' nodes, and nothing else.

In Flower 1.41 and 1.42, nodes, runs and their control share one port of the SuperLink, and only
the calls of nodes (``/v1/fleet``) ask for keys: whoever reaches the others starts runs. So the
SuperLink listens on loopback, and this gate stands before it.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from ._files import write_file

# Flower sends what is longer in pieces of 5 MB; a call of nodes is no longer than that and a bit.
LARGEST_CALL = 8 * 2**20
# Connections at a time, beyond which a caller is told to come back later.
MOST_CALLERS = 256
# For the head of a call, from the moment that it may come.
_SECONDS_OF_HEAD = 10.0
# Words and hyphens only: nothing that another reader of paths might take for a step upwards.
_FLEET = re.compile(rb"/v1/fleet(/[a-z][a-z0-9-]*)+")
# These headers are about one connection, and not about what goes through it.
_HOP = {b"host", b"connection", b"transfer-encoding", b"keep-alive", b"content-length"}


class Gate:
    """An ASGI application that passes calls of the fleet on.

    Parameters
    ----------
    upstream : str
        URL of the SuperLink.
    root : path-like
        Its certificate.
    """

    def __init__(self, upstream: str, root: str | Path):
        verify = ssl.create_default_context(cafile=str(root))
        # Nothing of the environment, which may name a proxy.
        self._client = httpx.AsyncClient(
            base_url=upstream, verify=verify, timeout=None, trust_env=False
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call."""
        reply = await self._reply(scope, receive)
        await reply(scope, receive, send)

    async def _reply(self, scope: Any, receive: Any) -> Response:
        path = scope["raw_path"]
        if scope["method"] != "POST" or not _FLEET.fullmatch(path) or scope["query_string"]:
            return _refusal(403)
        try:
            async with asyncio.timeout(60):
                body = await _body(receive)
            if body is None:
                return _refusal(413)
            headers = [(k, v) for k, v in scope["headers"] if k not in _HOP]
            reply = await self._client.post(path.decode(), content=body, headers=headers)
        except TimeoutError:
            return _refusal(408)
        except httpx.HTTPError:  # Flower's nodes try again
            return _refusal(503)
        passed = Response(reply.content, reply.status_code)
        kept = [(k.lower(), v) for k, v in reply.headers.raw]
        passed.raw_headers += [(k, v) for k, v in kept if k not in _HOP | {b"content-encoding"}]
        return passed


class _Head(H11Protocol):
    """Reads HTTP, and hangs up on who has not sent the head of a call in time.

    Whoever says nothing would hold one of the places for good. h11 bounds the length of a head.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()

    def _watch(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self._late is None:
            self._late = self.loop.call_later(_SECONDS_OF_HEAD, self.transport.abort)
        elif not waits and self._late is not None:
            self._late.cancel()
            self._late = None


async def _body(receive: Any) -> bytes | None:
    """Return the body of a call, or None as soon as it is too long."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > LARGEST_CALL or message["type"] != "http.request":
            return None
    return b"".join(parts)


def _refusal(status: int) -> Response:
    return Response(status_code=status, headers={"connection": "close"})


def serve(upstream: str, root: str | Path, host: str, port: int, folder: Path) -> uvicorn.Server:
    """Return a server of the gate, over TLS; its `run` serves until it is told to end.

    Parameters
    ----------
    upstream, root : see `Gate`
    host, port : str, int
        Where strangers call.
    folder : Path
        Holds server.pem, the certificate that owners know, and its key server.key.
    """
    config = uvicorn.Config(
        Gate(upstream, root),
        host=host,
        port=port,
        ssl_certfile=folder / "server.pem",
        ssl_keyfile=folder / "server.key",
        http=_Head,
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        limit_concurrency=MOST_CALLERS,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def write_certificate(folder: Path, hosts: Sequence[str], days: int = 365) -> None:
    """Write server.pem and server.key: a certificate that vouches for itself.

    Parameters
    ----------
    folder : Path
    hosts : sequence of str
        Names and IP addresses by which owners call this machine; not empty.
    days : int, default=365
        Until it expires.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0])])
    now = datetime.datetime.now(datetime.UTC)
    public = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(public, critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_file(folder / "server.key", key.private_bytes(*form, serialization.NoEncryption()))
    write_file(folder / "server.pem", certificate.public_bytes(serialization.Encoding.PEM))


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
