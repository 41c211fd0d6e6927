"""A server on the loopback interface that speaks OpenAI's chat API, one layer below ours, and does what is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass
class Does:
    """What the server does with one request.

    - `text`, `calls` (id, name, arguments as JSON), `thinking`: the reply; `finish` why it ended.
    - `status`, `headers`, `body`: another answer than a reply.
    - `cut`: the connection is closed after so many pieces of a stream, in the middle of one that is not streamed.
    - `hangs`: nothing comes after the first piece, nothing at all where it is not streamed.
    """

    text: str = "Fine."
    calls: Sequence[tuple[str, str, str]] = ()
    thinking: str = ""
    finish: str | None = None
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    hangs: bool = False


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Json


class Server(ThreadingHTTPServer):
    """Does `script` one after the other, the last again and again; keeps the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Does] = [Does()]
        self.asked: list[Asked] = []
        self.open = 0  # connections
        self.lock = threading.Lock()
        self.came, self.over = threading.Event(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next(self, asked: Asked) -> Does:
        with self.lock:
            self.asked.append(asked)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing but that it is over: a client that went away is what tests are about."""
        self.over.set()


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.open += 1

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        with self.server.lock:
            self.server.open -= 1
        self.server.over.set()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        does = self.server.next(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.server.came.set()
        if does.status != 200 or does.body is not None:
            self._send(does.status, does.body or b"{}", does.headers)
        elif body.get("stream"):
            self._stream(does)
        elif does.hangs:
            self._hang()
        else:
            self._send(200, json.dumps(_whole(does)).encode(), does.headers, cut=does.cut is not None)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str], *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _stream(self, does: Does) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, chunk in enumerate(_chunks(does)):
            if does.cut == number:
                return
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
            if does.hangs:
                self._hang()
                return
        self.wfile.write(b"data: [DONE]\n\n")

    def _hang(self) -> None:
        """Waits until the client goes away, at most a minute."""
        self.connection.settimeout(60)
        with suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _calls(does: Does) -> list[Json]:
    return [{"index": number, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (id, name, arguments) in enumerate(does.calls)]  # fmt: skip


def _reason(does: Does) -> str:
    return does.finish or ("tool_calls" if does.calls else "stop")


def _whole(does: Does) -> Json:
    message: Json = {"role": "assistant", "content": does.text}
    if does.calls:
        message["tool_calls"] = _calls(does)
    if does.thinking:
        message["reasoning"] = does.thinking
    whole: Json = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": "tiny-1", "provider": "Loop",
                   "choices": [{"index": 0, "message": message, "finish_reason": _reason(does)}]}  # fmt: skip
    return {**whole, "usage": does.usage} if does.usage else whole


def _chunks(does: Does) -> list[Json]:
    head = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1",
            "provider": "Loop"}  # fmt: skip

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    found = [chunk({"role": "assistant", "content": f"{word} "}) for word in does.text.split(" ")[:-1]]
    found.append(chunk({"role": "assistant", "content": does.text.split(" ")[-1]}))
    if does.calls:
        found.append(chunk({"tool_calls": _calls(does)}))
    found.append(chunk({}, _reason(does)))
    if does.usage:
        found.append({**head, "choices": [], "usage": does.usage})
    return found


@contextmanager
def serving(server: Server | None = None) -> Iterator[Server]:
    """Yields a server that answers, and ends it."""
    with server or Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
