"""The model server of an overnight test, on loopback, and the program that asks it.

The server counts its answers, so that what was asked twice shows. While it is down it fails in every way in turns: too
many requests, an internal error, an answer that is cut off, one that is no JSON, none at all, and one that is late.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["WAYS", "ModelServer"]

WAYS = ("429", "500", "cut off", "no JSON", "nothing", "late")
_LATE_S = 60.0
_PATIENCE_S = 20.0


class ModelServer:
    """A server in threads of this process; `close` ends it."""

    def __init__(self) -> None:
        """Starts it on a free port."""
        self.is_down = False
        self.answered: dict[str, list[int]] = {}  # the numbers of the answers to each question
        self.failed = 0
        self._count = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, question: str) -> bytes | str:
        """Returns the answer to a question, or the way in which there is none."""
        with self._lock:
            if self.is_down:
                self.failed += 1
                return WAYS[(self.failed - 1) % len(WAYS)]
            self._count += 1
            self.answered.setdefault(question, []).append(self._count)
            return json.dumps({"note": f"answer {self._count}"}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer, over = self._answer, self._over

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answers one question."""
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                found = answer(str(question["request_id"]))
                if found in ("429", "500"):
                    self.send_error(int(found))
                elif found == "late":
                    over.wait(_LATE_S)
                elif found != "nothing":
                    body = found if isinstance(found, bytes) else b'{"note": '
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body) + 100 * (found == "cut off")))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *words: object) -> None:
                """Says nothing."""

        return Handler


def main() -> int:
    """Asks the server at the URL of the first argument what standard input asks, as the thinker `command` has it."""
    question = sys.stdin.buffer.read()
    with urllib.request.urlopen(sys.argv[1], question, _PATIENCE_S) as answer:
        found = json.load(answer)
    sys.stdout.write(json.dumps({"text": json.dumps(found), "tokens_in": 10, "tokens_out": 5, "model": "overnight"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
