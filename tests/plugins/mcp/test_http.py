"""Over HTTP: the SDK's client with the token; without it, or in a foreign name, nothing on any path."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation
from uvicorn.server import ServerState

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual.toolkit import user_state
from perpetual_mcp.http import TOKEN_VARIABLE, Guard, address_of, token_of
from perpetual_mcp.http_timeouts import PATIENCE_S, PatientProtocol
from perpetual_mcp.resources import RESOURCE
from tests.plugins.mcp.clients import COMMAND, ENVELOPE, initialize

METHODS = ("GET", "POST", "DELETE", "OPTIONS", "HEAD")
PATHS = ("/mcp", "/", "/.well-known/oauth-protected-resource")


@dataclass(frozen=True)
class Served:
    """A server on a port of its own."""

    folder: Path
    port: int
    token: str
    process: subprocess.Popen[str]
    place: Path  # of the token's file

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: dict[str, Any] | None = None
    ) -> tuple[int, str]:
        """Status and text of one request, sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
            text = b"" if body is None else json.dumps(body).encode()
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.putheader("Content-Length", str(len(text)))
            connection.endheaders(text)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("http") / "project"
    with Lab.init(folder, name="served") as lab:
        lab.hypotheses.add("warm-up lowers the loss")
    environment = {key: value for key, value in os.environ.items() if key != TOKEN_VARIABLE}
    process = subprocess.Popen(
        [*COMMAND, "--http", "127.0.0.1:0"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    address, token = process.stderr.readline(), process.stderr.readline()
    assert address.startswith("perpetual mcp: listening on http://127.0.0.1:"), address
    assert "Authorization: Bearer TOKEN (kept in " in token, token  # a log gets no token
    port = int(address.rpartition(":")[2].partition("/")[0])
    place = Path(token.partition("(kept in ")[2].rstrip(")\n"))
    yield Served(folder, port, place.read_text().strip(), process, place)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_the_sdk_s_client_is_served(served: Served) -> None:
    async def talk(mode: str, name: str) -> Any:
        url, headers = f"http://127.0.0.1:{served.port}/mcp", {"Authorization": f"Bearer {served.token}"}
        info = Implementation(name=name, version="1")
        with anyio.fail_after(60):
            async with (
                httpx2.AsyncClient(headers=headers) as web,
                Client(streamable_http_client(url, http_client=web), mode=mode, client_info=info) as client,
            ):
                assert client.instructions is not None
                assert "warm-up lowers the loss" in client.instructions
                made = await client.call_tool("perpetual_hypotheses", {"action": "add", "text": f"by {name}"})
                text = (await client.read_resource(RESOURCE)).contents[0]
                return made.structured_content, getattr(text, "text", "")

    for mode, name in (("legacy", "older"), ("auto", "newer")):
        made, text = anyio.run(talk, mode, name)
        assert made["hypothesis"]["created_by"] == f"mcp:{name}/1"
        assert f"by {name}" in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "{token}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer {token}", "host": "evil.example"}, 421),
        ({"Authorization": "Bearer {token}", "host": "evil.example:{port}"}, 421),
        ({"Authorization": "Bearer {token}", "host": "127.0.0.1:1"}, 421),
        ({"Authorization": "Bearer {token}", "host": "127.0.0.1:{port}@evil.example"}, 421),
        ({"Authorization": "Bearer {token}", "host": ""}, 421),
        ({"Authorization": "Bearer {token}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "null"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "http://127.0.0.1.evil.example:{port}"}, 403),
        ({"Authorization": "Bearer {token}", "Origin": "https://127.0.0.1:{port}"}, 403),
    ],
)
def test_a_stranger_is_refused_on_every_method_and_path(served: Served, headers: dict[str, str], status: int) -> None:
    given = {name: value.format(token=served.token, port=served.port) for name, value in headers.items()}
    for method in METHODS:
        for path in PATHS:
            found, text = served.ask(method, path, given)
            assert found == status, (method, path, text)
            assert served.token not in text


def test_a_local_page_with_the_token_is_served(served: Served) -> None:
    for host in (f"127.0.0.1:{served.port}", f"localhost:{served.port}", f"LOCALHOST:{served.port}"):
        given = {
            "Authorization": f"Bearer {served.token}",
            "host": host,
            "Origin": f"http://localhost:{served.port}",
            "Content_Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        status, text = served.ask("POST", "/mcp", given, {"jsonrpc": "2.0", **initialize("2025-11-25")})
        assert status == 200
        assert '"protocolVersion":"2025-11-25"' in text
        assert served.ask("GET", "/elsewhere", given)[0] == 404


def test_the_token_is_for_its_owner_alone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    file = served.place
    assert not file.is_relative_to(served.folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() == served.token
    assert len(served.token) >= 32
    monkeypatch.setenv(user_state.VARIABLE, str(file.parent.parent))  # the fixture's
    assert token_of(served.folder, {}) == (served.token, str(file))  # the next server's clients need no new one


def test_a_token_can_be_given_and_a_weak_one_is_refused(project: Path) -> None:
    assert token_of(project, {TOKEN_VARIABLE: "a" * 16}) == ("a" * 16, f"${TOKEN_VARIABLE}")
    for weak in ("", "short", "with a blank in it", "ä" * 20):
        with pytest.raises(UsageError):
            token_of(project, {TOKEN_VARIABLE: weak})
    (project / ".perpetual" / "mcp-token").write_text("brought-by-a-clone-of-the-project")
    token, place = token_of(project, {})
    assert token != "brought-by-a-clone-of-the-project"
    for mode in (0o640, 0o604):
        Path(place).chmod(mode)
        with pytest.raises(PerpetualError, match="others can read"):
            token_of(project, {})


def test_a_token_file_that_is_a_link_is_refused(project: Path, tmp_path: Path) -> None:
    place = Path(token_of(project, {})[1])
    place.unlink()
    (tmp_path / "secret").write_text("a-secret-of-another-program")
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(PerpetualError, match="no file of yours"):
        token_of(project, {})


def test_only_this_machine_is_served_unless_hosts_are_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("0.0.0.0:0", "[::]:0", "example.org:80", "192.168.1.7:80"):
        assert run(["mcp", "--http", address, "--json"]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["code"] == "not_loopback"
        assert "plugins.mcp.hosts" in error["hint"]
    assert address_of("0.0.0.0:80", ["lab.example"]) == ("0.0.0.0", 80)
    assert run(["config", "set", "plugins.mcp.hosts", "[lab.example]"]) == 0


@pytest.mark.parametrize("address", ["", "8321", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":80", "localhost:-1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        address_of(address)


def test_loopback_goes_by_several_names() -> None:
    assert address_of("[::1]:80") == ("::1", 80)
    assert address_of("127.8.9.1:0") == ("127.8.9.1", 0)
    assert address_of("localhost:65535") == ("localhost", 65535)


def test_an_address_in_use_is_named(served: Served, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--http", f"127.0.0.1:{served.port}"]) == 1
    assert "cannot be listened on" in capsys.readouterr().err


def test_the_guard_takes_named_hosts_and_no_web_socket() -> None:
    sent: list[dict[str, Any]] = []
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask(kind: str, *headers: tuple[bytes, bytes]) -> None:
        await Guard(app, 8321, "t" * 20, ["Lab.example"])({"type": kind, "headers": headers}, None, send)

    token = (b"authorization", b"Bearer " + b"t" * 20)
    anyio.run(ask, "http", (b"host", b"lab.example"), token)
    anyio.run(ask, "http", (b"host", b"lab.example:8321"), token)
    anyio.run(ask, "lifespan")
    assert reached == ["http", "http", "lifespan"]
    assert sent == []
    anyio.run(ask, "websocket", (b"host", b"lab.example"), token)
    anyio.run(ask, "http", (b"host", b"127.0.0.1:8321"), token)
    anyio.run(ask, "http", (b"host", b"lab.example"), (b"host", b"lab.example"), token)
    anyio.run(ask, "http", (b"host", b"lab.example"), token, token)
    own, foreign = (b"origin", b"http://lab.example"), (b"origin", b"http://evil.example")
    anyio.run(ask, "http", (b"host", b"lab.example"), token, own, foreign)
    assert reached == ["http", "http", "lifespan"]
    assert [item.get("status") for item in sent if item["type"] != "http.response.body"] == [None, 421, 421, 401, 403]
    anyio.run(ask, "http", (b"host", b"lab.example"), token, own)
    assert reached == ["http", "http", "lifespan", "http"]


def test_the_scheme_goes_by_any_case(served: Served) -> None:
    """RFC 9110, section 11.1; the token does not."""
    for scheme, token, status in (("bearer", served.token, 405), ("BEARER", served.token.swapcase(), 401)):
        assert served.ask("PUT", "/mcp", {"Authorization": f"{scheme} {token}"})[0] == status


def test_servers_that_start_at_once_agree_on_the_token(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "state"))
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: token_of(project, {}), range(24)))
    assert len(found) == 1
    assert len([*(user_state.folder() / "mcp").iterdir()]) == 1


def test_a_connection_that_sends_nothing_whole_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches the port could otherwise hold as many as the process has descriptors."""
    monkeypatch.setattr(PatientProtocol, "patience_s", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request was whole")

    async def talk() -> None:
        config = uvicorn.Config(app, http=PatientProtocol, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await server.startup(sockets=[listening])
            with anyio.fail_after(30):
                async with await anyio.connect_tcp("127.0.0.1", listening.getsockname()[1]) as slow:
                    await slow.send(b"GET / HTTP/1.1\r\nHost: ")
                    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                        await slow.receive()
            await server.shutdown(sockets=[listening])

    anyio.run(talk)


def test_a_connection_lasts_while_it_is_served_and_a_moment_after() -> None:
    clock, waiting, ended = [0.0], [], []

    def call_later(delay_s: float, look: Any) -> Any:
        waiting.append((clock[0] + delay_s, look))
        return SimpleNamespace(cancel=lambda: None)

    def pass_s(seconds: float) -> None:
        clock[0] += seconds
        due = [item for item in waiting if item[0] <= clock[0]]
        waiting[:] = [item for item in waiting if item[0] > clock[0]]
        for _, look in due:
            look()

    loop: Any = SimpleNamespace(time=lambda: clock[0], call_later=call_later)
    transport: Any = SimpleNamespace(
        abort=lambda: ended.append(clock[0]), get_extra_info=lambda name: None, is_closing=lambda: True
    )
    config = uvicorn.Config(lambda *_: None, http=PatientProtocol, lifespan="off", log_config=None)
    protocol = PatientProtocol(config, ServerState(), {}, loop)
    protocol.connection_made(transport)
    protocol.cycle = cycle = SimpleNamespace(response_complete=False)  # type: ignore[assignment]
    for _ in range(20):
        pass_s(PATIENCE_S / 2)  # a stream of events
    assert ended == []
    cycle.response_complete = True
    protocol.on_response_complete()
    pass_s(PATIENCE_S * 0.9)
    assert ended == []
    pass_s(PATIENCE_S * 0.9)
    pass_s(PATIENCE_S * 0.9)
    assert len(ended) == 1


def test_the_newer_era_needs_no_session(served: Served) -> None:
    given = {
        "Authorization": f"Bearer {served.token}",
        "Content_Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP_Protocol_Version": "2026-07-28",
        "Mcp_Method": "server/discover",
    }
    status, text = served.ask(
        "POST", "/mcp", given, {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": ENVELOPE}
    )
    assert status == 200, text
    assert "state of the research" in text
