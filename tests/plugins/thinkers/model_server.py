"""A model server on the loopback interface, which answers what a test wants, and the template that asks it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "thinkers.md"
NOTE = json.dumps({"note": "The run ended as it should."})


class Server(ThreadingHTTPServer):
    """Serves as a model: counts requests by their id, and fails while `is_down` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.is_down = False
        self.answer: Callable[[str], str] = lambda _: NOTE
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(str(self.headers["X-Request-Id"]))
        self.server.keys.append(self.headers["Authorization"])
        if self.server.is_down:
            self.send_error(503)
            return
        text = self.server.answer(body["messages"][1]["content"])
        found = {"model": "tiny-1", "choices": [{"message": {"content": text}}],
                 "usage": {"prompt_tokens": 50, "completion_tokens": 7}}  # fmt: skip
        out = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    """Yields a server that answers, and ends it."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def template_in(folder: Path) -> Path:
    """Writes the script as the page has it, and returns its path."""
    found = re.search(r'```python title="ask_model.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    path = folder / "ask_model.py"
    path.write_text(found[1])
    return path
