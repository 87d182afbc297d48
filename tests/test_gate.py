"""The gate passes what nodes call, and nothing else: neither by another name nor in any amount."""

import contextlib
import importlib.util
import socket
import ssl
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("pyarrow") is None:
    pytest.skip("needs the extra flower", allow_module_level=True)

import httpx
import uvicorn
from flower_double import Serving
from starlette.responses import Response

from skdpsumm.federated import _gate
from skdpsumm.federated._commands import free_port


class SuperLink:
    """Notes what reaches it, and repeats the body."""

    def __init__(self):
        self.called = []

    async def __call__(self, scope, receive, send):
        body = await _gate._body(receive)
        self.called.append((scope["method"], scope["raw_path"], dict(scope["headers"]), len(body)))
        await Response(body[::-1], 207, {"x-answer": "1"})(scope, receive, send)


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """Yield a client of a gate, and the SuperLink behind it."""
    inner, outer = tmp_path_factory.mktemp("inner"), tmp_path_factory.mktemp("outer")
    for folder in (inner, outer):
        _gate.write_certificate(folder, ["127.0.0.1"])
    behind, ports = SuperLink(), (free_port(), free_port())
    tls = {"ssl_certfile": inner / "server.pem", "ssl_keyfile": inner / "server.key"}
    quiet = {"lifespan": "off", "ws": "none", "log_level": "warning"}
    config = uvicorn.Config(behind, port=ports[0], timeout_graceful_shutdown=1, **quiet, **tls)
    upstream = f"https://127.0.0.1:{ports[0]}", inner / "server.pem"
    at = "127.0.0.1", ports[1], outer
    servers = [Serving(uvicorn.Server(config)), Serving(_gate.serve(*upstream, *at))]
    verify = ssl.create_default_context(cafile=str(outer / "server.pem"))
    with httpx.Client(base_url=f"https://127.0.0.1:{ports[1]}", verify=verify) as client:
        client.timeout = 60
        yield client, behind, ports[1]
    for server in reversed(servers):
        server.stop()


def test_a_call_of_a_node_passes_as_it_is(gate):
    client, behind, _ = gate
    reply = client.post("/v1/fleet/push-object", content=b"abc", headers={"x-signature": "s"})
    assert (reply.status_code, reply.content, reply.headers["x-answer"]) == (207, b"cba", "1")
    method, path, headers, size = behind.called[-1]
    assert (method, path, size) == ("POST", b"/v1/fleet/push-object", 3)
    assert headers[b"x-signature"] == b"s"


PATHS = [
    *("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/pull-task-input"),
    *("/v1/responses", "/v1/fleet", "/v1/fleet/", "/v1/fleetx/pull-messages"),
    *("/V1/FLEET/pull-messages", "/", "/docs", "*", "/v1/fleet/../control/start-run"),
    *("/v1/fleet/./pull-messages", "/v1/fleet/%2e%2e/control/start-run"),
    *("/v1/fleet/..%2fcontrol/start-run", "/v1/fleet//control/start-run"),
    *("//v1/fleet/pull-messages", "/v1/fleet/pull-messages/../../control/start-run"),
    *("/v1/fleet/pull-messages?x=/v1/control", "/v1/fleet/pull-messages;/v1/control"),
    *("/v1/fleet/pull-messages%0a", "https://127.0.0.1/v1/control/start-run"),
]


def test_no_other_path_passes(gate):
    _, behind, port = gate
    before = len(behind.called)
    for path in PATHS:
        for method in ("POST", "GET"):
            assert status(port, f"{method} {path} HTTP/1.1") in (b"400", b"403"), path
    assert status(port, "GET /v1/fleet/pull-messages HTTP/1.1") == b"403"
    assert len(behind.called) == before


@contextlib.contextmanager
def call_to(port):
    context = ssl._create_unverified_context()
    address = ("127.0.0.1", port)
    with socket.create_connection(address, 20) as plain, context.wrap_socket(plain) as call:
        yield call


def status(port, line, body=b"", headers=""):
    """Return the status of a call, whose path no client has made better."""
    with call_to(port) as call:
        head = f"{line}\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        call.sendall(head.encode() + body)
        return call.recv(1000).split(b" ")[1]


def test_a_request_cannot_hide_a_second_one(gate):
    """Two readers of a request that disagree on its end would let the rest pass unseen."""
    _, behind, port = gate
    before = len(behind.called)
    hidden = b"0\r\n\r\nPOST /v1/control/start-run HTTP/1.1\r\nHost: x\r\n\r\n"
    status(port, "POST /v1/fleet/a HTTP/1.1", hidden, "Transfer-Encoding: chunked\r\n")
    assert all(path == b"/v1/fleet/a" for _, path, *_ in behind.called[before:])


def test_a_call_that_is_too_long_takes_no_memory(gate):
    client, behind, _ = gate
    before = len(behind.called)
    parts = [bytes(2**20)] * 200
    tracemalloc.start()
    with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # where the gate has hung up
        assert client.post("/v1/fleet/push-object", content=iter(parts)).status_code == 413
    assert tracemalloc.get_traced_memory()[1] < 5 * _gate.LARGEST_CALL
    tracemalloc.stop()
    assert len(behind.called) == before
    whole = client.post("/v1/fleet/push-object", content=bytes(_gate.LARGEST_CALL))
    assert whole.status_code == 207


def test_a_flood_does_not_keep_a_node_out(gate):
    client, _, port = gate
    lines = ["POST /v1/control/start-run HTTP/1.1", "POST /v1/fleet/register-node HTTP/1.1"]
    with ThreadPoolExecutor(8) as pool:
        flood = [pool.submit(status, port, lines[k % 2], b"x" * 1000) for k in range(200)]
        for _ in range(10):
            assert client.post("/v1/fleet/pull-messages", content=b"abc").status_code == 207
        assert {f.result() for f in flood} == {b"403", b"207"}


@contextlib.contextmanager
def alone(folder):
    """Yield the port of a gate with no SuperLink behind it."""
    _gate.write_certificate(folder, ["127.0.0.1", "curator.example"])
    port = free_port()
    upstream = f"https://127.0.0.1:{free_port()}", folder / "server.pem"
    gate = Serving(_gate.serve(*upstream, "127.0.0.1", port, folder))
    try:
        yield port
    finally:
        gate.stop()


def test_who_says_nothing_holds_no_place_for_good(tmp_path, monkeypatch):
    """Neither from the start, nor in the middle of a head, nor after a call."""
    monkeypatch.setattr(_gate, "MOST_CALLERS", 6)
    monkeypatch.setattr(_gate, "_SECONDS_OF_HEAD", 1.0)
    refused = "GET /x HTTP/1.1"
    heads = [b"", b"POST /v1/fleet/a HTTP/1.1\r\nHost:", b"GET /x HTTP/1.1\r\nHost: x\r\n\r\nGET"]
    with alone(tmp_path) as port, contextlib.ExitStack() as held:
        gone = status(port, "POST /v1/fleet/a HTTP/1.1")  # there is no SuperLink
        assert gone == b"503"
        for k in range(6):
            held.enter_context(call_to(port)).sendall(heads[k % 3])
        time.sleep(0.2)
        assert status(port, refused) == b"503"
        deadline = time.monotonic() + 20
        while (got := status(port, refused)) != b"403" and time.monotonic() < deadline:
            time.sleep(0.2)
        assert got == b"403"


def test_a_head_that_is_too_long_takes_no_memory(tmp_path):
    line = b"x-a: " + b"a" * 2**20 + b"\r\n"
    with alone(tmp_path) as port, call_to(port) as call:
        tracemalloc.start()
        with contextlib.suppress(OSError):  # where the gate has hung up
            call.sendall(b"POST /v1/fleet/a HTTP/1.1\r\nHost: x\r\n")
            for _ in range(30):
                call.sendall(line)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        tracemalloc.stop()
