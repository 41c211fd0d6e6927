"""`perpetual plugins search`: an index on this machine, as one answers JSON, HTML, slowly, wrongly or not at all."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perpetual.api import TransientError, UsageError
from perpetual.cli.app import run
from perpetual_devkit import plugin_index
from perpetual_devkit.installer import Installer, index_url
from perpetual_devkit.plugin_index import Limits, listed

NAMES = ["perpetual-plugin-slurm", "Perpetual_Plugin.Lmdb", "perpetual-pluginx", "requests", "perpetual-plugin-rocm"]
FOUND = ("perpetual-plugin-lmdb", "perpetual-plugin-rocm", "perpetual-plugin-slurm")


class Index(ThreadingHTTPServer):
    """A package index; `asked` are the headers of each question."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[dict[str, str]] = []
        self.form, self.status = "json", 200

    @property
    def url(self) -> str:
        """The address of its listing."""
        return f"http://127.0.0.1:{self.server_port}/simple"


class _Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append({**self.headers, "path": self.path})
        filler = [f"other-{number}" for number in range(5000)]
        names = [*filler, *NAMES, *filler]
        if self.server.form == "html":
            body = "".join(f'<a href="/simple/{name}/">{name}</a>\n' for name in names).encode()
        else:
            body = json.dumps({"meta": {}, "projects": [{"name": name} for name in names]}).encode()
        kind = {"html": "text/html"}.get(self.server.form, "application/vnd.pypi.simple.v1+json")
        packed = gzip.compress(body) if self.server.form == "gzip" else body
        self.send_response(self.server.status)
        self.send_header("Content-Type", kind)
        if self.server.form == "gzip":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed[: len(packed) // 2] if self.server.form == "cut" else packed)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
    server = Index()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("form", ["json", "html", "gzip"])
def test_the_names_of_a_listing(index: Index, form: str) -> None:
    index.form = form
    assert listed(index.url, limits=Limits(chunk_bytes=1000)).names == FOUND, "also of names that are cut"
    assert index.asked[0]["path"] == "/simple/"


def test_the_index_is_asked_once_a_day(index: Index) -> None:
    first = listed(index.url)
    assert listed(index.url) == first
    assert len(index.asked) == 1
    listed(index.url, refresh=True)
    assert len(index.asked) == 2
    listed(index.url, limits=Limits(kept_s=0.0))
    assert len(index.asked) == 3


def test_a_password_is_sent_and_not_shown(index: Index) -> None:
    found = listed(index.url.replace("http://", "http://me:s%40cret@"))
    assert found.index == f"{index.url}/"
    assert index.asked[0]["Authorization"] == "Basic bWU6c0BjcmV0"
    kept = Path(os.environ["PERPETUAL_STATE_DIR"], plugin_index.FILE).read_text("utf-8")
    assert "cret" not in kept


def test_an_unusable_listing_is_exit_3(index: Index) -> None:
    index.status = 503
    with pytest.raises(TransientError, match="503"):
        listed(index.url)
    index.status = 200
    with pytest.raises(TransientError, match="larger than"):
        listed(index.url, limits=Limits(largest_bytes=10_000))
    with pytest.raises(TransientError, match="took more"):
        listed(index.url, limits=Limits(reading_s=-1.0))
    with pytest.raises(UsageError, match="not asked over HTTP"):
        listed("file:///srv/simple")


def test_a_listing_that_is_cut_off_is_no_answer(index: Index) -> None:
    index.form = "cut"
    with pytest.raises(TransientError, match="cannot be read"):
        listed(index.url)
    assert not Path(os.environ["PERPETUAL_STATE_DIR"], plugin_index.FILE).exists()


def test_plugins_search_lists_and_filters(
    index: Index, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    assert run(["plugins", "search", "SL", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (item,) = document["items"]
    assert item == {"name": "slurm", "distribution": "perpetual-plugin-slurm", "installed": None}
    assert document["index"] == f"{index.url}/"
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert run(["plugins", "search", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "index_unreachable"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert run(["plugins", "search", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "no_index"


@pytest.mark.slow
def test_pip_says_which_index_it_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nothing sets one, its help does: no address is written here."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    pip = Installer("pip", (sys.executable, "-P", "-m", "pip"))
    monkeypatch.setattr(Installer, "setting", lambda self, key: None)
    assert index_url(pip, {}).startswith("https://")
    assert index_url(pip, {"PIP_INDEX_URL": "http://127.0.0.1/x"}) == "http://127.0.0.1/x"
    uv = Installer("uv", ("uv", "pip"))
    assert index_url(uv, {"UV_DEFAULT_INDEX": "own=http://127.0.0.1/x"}) == "http://127.0.0.1/x"
    with pytest.raises(TransientError, match="uv names no package index"):
        index_url(uv, {})


@pytest.mark.parametrize("address", ["http://[bad/", "http://localhost:port/simple"])
def test_an_address_that_is_none_is_a_usage_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", address)
    with pytest.raises(UsageError, match="the package index is no address"):
        listed(address)
