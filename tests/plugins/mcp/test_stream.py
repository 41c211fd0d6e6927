"""The protocol stream under bad weather: garbage, prints, closed pipes, signals, long and unfinished lines."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perpetual import Lab
from perpetual.testing.plugin import write_distribution
from perpetual_mcp.stdio import refusal_of
from tests.plugins.mcp.clients import COMMAND, ENVELOPE, Raw, initialize, raw

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["initialize", "server/discover", "tools/call", "tools/list", "resources/read", "resources/subscribe",
     "subscriptions/listen", "prompts/get", "completion/complete", "ping", "logging/setLevel",
     "notifications/cancelled", "notifications/initialized", "$/no", ""]
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
    optional={
        "id": st.integers() | st.text(max_size=5) | st.none() | st.booleans(),
        "method": METHODS | VALUES,
        "params": VALUES
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["perpetual_status", "perpetual_logs"]) | VALUES,
                "arguments": VALUES,
                "uri": st.sampled_from(["live-state://research", "run:///log", "memory://../x"]) | VALUES,
                "_meta": VALUES,
                "ref": VALUES,
                "argument": VALUES,
                "requestId": VALUES,
            },
        ),
        "result": VALUES,
        "error": VALUES,
    },
)
LINES = (
    MESSAGES.map(lambda message: json.dumps(message).encode())
    | st.binary(max_size=60)
    | st.lists(MESSAGES, max_size=2).map(lambda batch: json.dumps(batch).encode())
    | st.sampled_from([b"", b"{}", b"[]", b"null", b"\xff\xfe", b"{" * 500, b'{"jsonrpc":"2.0","id":1e400}', b"\0"])
)


class Battered:
    """A server that is sent garbage, and asked after it whether it still answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            COMMAND, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.answers: queue.Queue[Any] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.number = 0
        self.send(json.dumps({"jsonrpc": "2.0", **initialize("2025-06-18", -1)}).encode())
        self.until("opened", -1)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(json.loads(line))  # every line is a message, or this thread dies and nothing comes

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.replace(b"\n", b" ") + b"\n")
        self.process.stdin.flush()

    def until(self, what: str, number: Any) -> Any:
        while True:
            message = self.answers.get(timeout=60)
            assert message["jsonrpc"] == "2.0"
            if "id" in message and message["id"] == number:  # a notification has none, and is nobody's answer
                return message

    def is_alive(self) -> bool:
        self.number += 1
        number = f"alive-{self.number}-of-this-test"
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode())
        return "result" in self.until("ping", number)


@pytest.fixture(scope="module")
def battered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Battered]:
    folder = tmp_path_factory.mktemp("battered") / "project"
    Lab.init(folder, name="battered").close()
    server = Battered(folder)
    yield server
    server.process.kill()
    server.process.wait()
    server.reader.join(60)  # it may still be reading what is closed below
    for pipe in (server.process.stdin, server.process.stdout):
        assert pipe is not None
        pipe.close()


@given(lines=st.lists(LINES, min_size=1, max_size=8))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_is_survived(battered: Battered, lines: list[bytes]) -> None:
    for line in lines:
        battered.send(line)
    assert battered.is_alive()


def test_a_message_that_is_too_long_is_refused_and_the_next_one_served(battered: Battered) -> None:
    battered.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (17 * 1024 * 1024) + b'"}')
    assert "longer than" in battered.until("refusal", None)["error"]["message"]
    assert battered.is_alive()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', (None, -32600)),
        (b"[]", (None, -32600)),
        (b'"text"', (None, -32600)),
        (b'{"jsonrpc":"2.0","id":6}', (6, -32600)),
        (b'{"jsonrpc":"1.0","id":"seven","method":"ping"}', ("seven", -32600)),
        (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}', (8, -32600)),
        (b'{"id":true}', (None, -32600)),
        (b'{"jsonrpc":"2.0","id":9,"method":', (None, -32700)),
        (b"", (None, -32600)),  # as the wire tells one that is too long
    ],
)
def test_a_broken_request_is_answered_with_a_json_rpc_error(line: bytes, told: tuple[object, int]) -> None:
    refusal = refusal_of(line)
    assert refusal is not None
    assert (refusal["id"], refusal["error"]["code"]) == told


@pytest.mark.parametrize("line", [b"  ", b'{"jsonrpc":"2.0"}', b'{"id":1,"result":3}', b'{"id":1,"error":{}}'])
def test_a_broken_notification_gets_no_answer(line: bytes) -> None:
    assert refusal_of(line) is None


def test_a_line_that_is_no_message_is_answered_in_its_place(battered: Battered) -> None:
    for line, number in ((b'{"jsonrpc":"2.0","id":"no method"}', "no method"), (b"garbage", None)):
        battered.send(line)
        assert battered.until("refusal", number)["error"]["code"] in (-32600, -32700)
    assert battered.is_alive()


def test_bytes_that_are_no_text_are_replaced_and_the_rest_is_read(battered: Battered) -> None:
    battered.send(b'{"jsonrpc":"2.0","id":"bytes","method":"no \xff such"}')
    assert battered.until("error", "bytes")["error"]["code"] == -32601


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d \\ud83d\\ude00"])
def test_a_text_cut_through_an_emoji_is_answered(battered: Battered, half: str) -> None:
    """As JavaScript writes it; the whole pair beside it stays what it is."""
    number = f"half {half}"
    call = {"name": "perpetual_hypotheses", "arguments": {"action": "add", "text": "CUT"}}
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", "method": "tools/call", "params": call})
    battered.send(line.replace("CUT", f"cut {half}").replace("ID", number.replace("\\", "/")).encode())
    answer = battered.until("call", number.replace("\\", "/"))
    statement = answer["result"]["structuredContent"]["hypothesis"]["statement"]
    assert statement == ("cut ? \U0001f600" if " " in half else "cut ?")


def test_a_long_answer_and_a_large_request_pass_whole(battered: Battered) -> None:
    """More than a pipe holds, both ways at once."""
    long = "a long note " * 11_000
    arguments = {"action": "write", "file": "notes/long.md", "content": long}
    call = {"id": "long", "method": "tools/call", "params": {"name": "perpetual_memory", "arguments": arguments}}
    for number in range(6):
        battered.send(json.dumps({"jsonrpc": "2.0", "id": f"list {number}", "method": "tools/list"}).encode())
    battered.send(json.dumps({"jsonrpc": "2.0", **call}).encode())
    assert not battered.until("call", "long")["result"].get("isError")
    with Lab.open(battered.folder) as lab:
        assert lab.memory.read("notes/long.md") == long


NOISY = """\
import os
from dataclasses import replace

print("imported")

from perpetual.api import hookimpl
from perpetual_tinydb import plugin


@hookimpl
def perpetual_stores():
    (known,) = plugin.perpetual_stores()
    return [replace(known, name="noisy", factory="acme_noisy:open_store")]


def open_store(options, *, path):
    print("opened")
    os.write(1, b"by a library\\n")
    os.system("echo by a child")
    from perpetual_tinydb.store import open_store

    return open_store(options, path=path)
"""


@pytest.mark.slow
def test_output_of_an_opening_store_stays_out_of_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened before the server is there."""
    write_distribution(tmp_path / "acme", {"acme_noisy.py": NOISY}, {"noisy": "acme_noisy"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "acme"), prepend=os.pathsep)
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    made = [sys.executable, "-m", "perpetual", "init", "-t", str(folder), "-H", "mcp", "--store", "noisy"]
    done = subprocess.run(made, capture_output=True, text=True, timeout=60, check=True)
    assert "by a child" in done.stdout
    (folder / ".perpetual" / "status.json").unlink(missing_ok=True)  # with it nothing is opened before the first call
    with raw(folder, quiet=False) as server:
        server.send(initialize("2025-06-18"))
        assert server.receive()["id"] == 1
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.stderr is not None
        assert {"imported", "opened", "by a library", "by a child"} <= set(server.process.stderr.read().splitlines())
        assert server.process.wait(timeout=60) == 0
        for pipe in (server.process.stdout, server.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.slow
def test_a_request_without_its_line_s_end_is_answered(project: Path) -> None:
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": ENVELOPE})
    done = subprocess.run(COMMAND, cwd=project, input=opening, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["id"] == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_a_file_as_input_and_a_file_as_output_are_served_too(project: Path, tmp_path: Path) -> None:
    """The event loop cannot wait for a file; threads can."""
    request, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    request.write_text(json.dumps({"jsonrpc": "2.0", **initialize("2025-06-18")}) + "\n")
    with request.open() as incoming, answers.open("w") as outgoing:
        subprocess.run(COMMAND, cwd=project, stdin=incoming, stdout=outgoing, timeout=60, check=True)
    assert json.loads(answers.read_text())["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.slow
def test_a_socket_is_served_as_a_pipe_is(project: Path) -> None:
    """As clients written for Node start their servers."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            COMMAND, cwd=project, stdin=theirs.fileno(), stdout=theirs.fileno()
        )
        theirs.close()
        ours.sendall(json.dumps({"jsonrpc": "2.0", **initialize("2025-11-25")}).encode() + b"\n")
        with ours.makefile("rb") as stream:
            assert json.loads(stream.readline())["result"]["protocolVersion"] == "2025-11-25"
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_client_that_stops_reading_ends_the_server(project: Path) -> None:
    """Although it would still speak: nothing that it asks for could be answered."""
    server = Raw(project)
    try:
        server.send(initialize("2025-06-18"))
        server.receive()
        assert server.process.stdout is not None
        server.process.stdout.close()
        assert server.process.wait(timeout=60) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
    finally:
        server.process.kill()
        server.process.wait()
        for pipe in (server.process.stdin, server.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.slow
def test_a_client_that_dies_ends_the_server(project: Path) -> None:
    """With an answer on its way that nobody reads."""
    server = Raw(project)
    try:
        server.send(initialize("2025-06-18"))
        server.receive()
        server.send(*[{"id": number, "method": "tools/list", "params": {}} for number in range(2, 12)])
        process = server.process
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.close()
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    finally:
        server.process.kill()
        server.process.wait()
        assert server.process.stderr is not None
        server.process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_loses_nothing_that_was_answered(project: Path, number: signal.Signals) -> None:
    with raw(project) as server:
        server.send(initialize("2025-06-18"), {"method": "notifications/initialized"})
        server.receive()
        for index in range(3):
            server.ask("tools/call", name="perpetual_hypotheses", arguments={"action": "add", "text": f"claim {index}"})
        # The last one is still being done when the signal comes; either it happened whole or not at all.
        last = {"name": "perpetual_hypotheses", "arguments": {"action": "add", "text": "claim 3"}}
        server.send({"id": 9, "method": "tools/call", "params": last})
        os.kill(server.process.pid, number)
        assert server.process.wait(timeout=60) == -number
        server.process.communicate()
    with Lab.open(project) as lab:
        assert [item.statement for item in lab.hypotheses.list().items][:3] == ["claim 0", "claim 1", "claim 2"]
        assert lab.storage.verify() == []


@pytest.mark.slow
def test_the_reason_is_printed_without_standard_input(project: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND], cwd=project, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
