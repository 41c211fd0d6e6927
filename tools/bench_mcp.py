"""Measures the MCP server: its start, a call, a large record, many clients, a campaign. `python tools/bench_mcp.py`.

Times are ratios to something measured in the same run, so that they mean the same on a slow machine; the bounds
are those of the design. Prints one JSON document, which says what is over its bound; nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVER = [sys.executable, "-m", "perpetual", "mcp"]
IMPORT = [sys.executable, "-c", "import mcp.server.mcpserver"]
ECHO = [
    sys.executable,
    "-S",
    "-c",
    "import sys, json\n"
    "for line in sys.stdin:\n"
    " m = json.loads(line)\n"
    " sys.stdout.write(json.dumps({'jsonrpc': '2.0', 'id': m.get('id'), 'result': m.get('params')}) + '\\n')\n"
    " sys.stdout.flush()\n",
]
BOUNDS = {
    "start_ratio": 1.4, "warm_ratio": 2.0, "call_ratio": 8.0, "flat_ratio": 1.5, "starved_ratio": 3.0,
    "campaign_calls": 10, "campaign_text_tokens": 3000, "campaign_structured_tokens": 3000,
    "tools_all_tokens": 6100, "tools_core_tokens": 2600,
}  # fmt: skip


class Peer:
    """A process that answers lines."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def ask(self, method: str, **parameters: Any) -> Any:
        """Returns the answer to one request."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while (answer := json.loads(self.process.stdout.readline())).get("id") != self.number:
            continue
        return answer["result"]

    def open(self) -> Peer:
        """Returns the handshake."""
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        return self

    def status(self) -> None:
        """Calls the tool once."""
        assert not self.ask("tools/call", name="perpetual_status", arguments={}).get("isError")

    def rss_bytes(self) -> int:
        """Returns resident memory now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def leave(self) -> float:
        """Ends it; answers the CPU seconds that it used."""
        before = _children_s()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        self.process.stdout.close()
        return _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _timed_s(deed: Callable[[], Any]) -> float:
    start = time.perf_counter()
    deed()
    return time.perf_counter() - start


def _calls_s(deed: Callable[[], Any], count: int) -> list[float]:
    for _ in range(10):
        deed()
    return [_timed_s(deed) for _ in range(count)]


def _cpu_of_import(folder: Path) -> float:
    before = _children_s()
    subprocess.run(IMPORT, cwd=folder, check=True)
    return _children_s() - before


def _cpu_of_start(folder: Path) -> float:
    """Returns CPU seconds of a server that has answered its first request and then ended."""
    return Peer(SERVER, folder).open().leave()


def start(folder: Path, rounds: int) -> dict[str, float]:
    """Returns the first answer against the import of the SDK, in CPU seconds, interleaved."""
    pairs = [(_cpu_of_import(folder), _cpu_of_start(folder)) for _ in range(rounds)]
    sdk, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"import_cpu_s": sdk, "first_answer_cpu_s": ours, "start_ratio": ours / sdk}


def warm(folder: Path, rounds: int) -> dict[str, float]:
    """Returns what a start costs that the service `mcp` serves, interleaved; the best of the rounds, CPU seconds.

    `warm_ratio` is the client's own process to an empty interpreter. `session_cpu_s` is what the session uses besides,
    in a process of its own; both are spent before the answer, and after it for the end.
    """
    from perpetual import Lab

    words = [str(Path(sys.executable).with_name("perpetual")), "mcp"]
    empty, ours, sessions, alone_s, warm_s = [], [], [], [], []
    with Lab.open(folder) as lab:
        for _ in range(rounds):
            alone_s.append(_answered_s(words, folder)[0])
        service = lab.services.start("mcp").get("pid")
        try:
            while not (loaded := _children_of(int(service or 0))) or not _listens(folder):
                time.sleep(0.05)
            for _ in range(rounds):
                before = _children_s()
                subprocess.run([sys.executable, "-c", "pass"], check=True)
                empty.append(_children_s() - before)
                used = _waited_s(loaded[0])
                wall, cpu = _answered_s(words, folder)
                while _children_of(loaded[0]):
                    time.sleep(0.005)
                warm_s.append(wall)
                ours.append(cpu)
                sessions.append(_waited_s(loaded[0]) - used)
        finally:
            lab.services.stop("mcp")
    return {"warm_cpu_s": min(ours), "warm_ratio": min(ours) / min(empty), "session_cpu_s": min(sessions),
            "warm_answer_s": min(warm_s), "alone_answer_s": min(alone_s)}  # fmt: skip


def _answered_s(words: list[str], folder: Path) -> tuple[float, float]:
    """Returns the wall seconds to the answer of `initialize`, and the CPU seconds of the client's own process."""
    begun = time.perf_counter()
    peer = Peer(words, folder).open()
    return time.perf_counter() - begun, peer.leave()


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _listens(folder: Path) -> bool:
    return (folder / ".perpetual" / "services" / "mcp.socket").exists()


def _waited_s(pid: int) -> float:
    """Returns the CPU seconds of a process and of its ended children; in ticks of the kernel, mostly 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def call(small: Path, large: Path, rounds: int, count: int) -> dict[str, float]:
    """Returns a status call against a raw echo, and in a large record against a small one, interleaved."""
    echo, little, much = Peer(ECHO, small), Peer(SERVER, small).open(), Peer(SERVER, large).open()
    request = {"name": "perpetual_status", "arguments": {}}
    times: dict[str, list[float]] = {"echo": [], "ping": [], "small": [], "large": []}
    for _ in range(rounds):
        times["echo"] += _calls_s(lambda: echo.ask("tools/call", **request), count)
        times["ping"] += _calls_s(lambda: little.ask("ping"), count)  # the least that the SDK's loop answers
        times["small"] += _calls_s(little.status, count)
        times["large"] += _calls_s(much.status, count)
    p50 = {name: statistics.median(values) for name, values in times.items()}
    p95 = {name: statistics.quantiles(values, n=20)[-1] for name, values in times.items()}
    for peer in (echo, little, much):
        peer.leave()
    return {
        **{f"{name}_p50_ms": value * 1000 for name, value in p50.items()},
        **{f"{name}_p95_ms": value * 1000 for name, value in p95.items()},
        "call_ratio": p50["small"] / p50["echo"],
        "ping_ratio": p50["ping"] / p50["echo"],
        "flat_ratio": p50["large"] / p50["small"],
    }


def crowd(folder: Path, clients: int, count: int) -> dict[str, float]:
    """Measures clients that work at once, each with its server: the slowest against the median, and all memory."""
    peers = [Peer(SERVER, folder).open() for _ in range(clients)]
    took = [0.0] * clients

    def work(index: int) -> None:
        took[index] = sum(_calls_s(peers[index].status, count))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rss = [peer.rss_bytes() for peer in peers]
    for peer in peers:
        peer.leave()
    return {
        "clients": clients,
        "calls_per_s": clients * count / max(took),
        "starved_ratio": max(took) / statistics.median(took),
        "rss_bytes_each": statistics.median(rss),
        "rss_bytes_all": sum(rss),
    }


RUN = (
    "import os, random, time; random.seed(int(os.environ['PERPETUAL_SEED']) + {shift}); "
    "time.sleep({lasts}); print('val_loss=%.4f' % ({mean} + random.gauss(0, 0.01)))"
)


def campaign(folder: Path, lasts_s: float = 1.0) -> dict[str, float]:
    """Does a campaign with tools alone, and counts its calls and the tokens of their answers, characters / 4.

    What a person does besides is one approval. A claim with its baseline, six runs, the verdict, a note, the report.
    """
    from perpetual import Lab

    Lab.init(folder, name="campaign").close()
    peer, answers, sent = Peer(SERVER, folder).open(), [], []

    def call(name: str, **arguments: Any) -> Any:
        sent.append(len(json.dumps({"name": name, "arguments": arguments})) / 4)
        found = peer.ask(
            "tools/call", name=f"perpetual_{name}", arguments=arguments, _meta={"progressToken": len(sent)}
        )
        assert not found.get("isError"), found
        # Agents hand either the text or the structure to their model, and the structure in its shortest form.
        compact = json.dumps(found["structuredContent"], separators=(",", ":"), ensure_ascii=False)
        answers.append((len(found["content"][0]["text"]) / 4, len(compact) / 4))
        return found["structuredContent"]

    def command(mean: float, shift: int) -> str:
        return f'{sys.executable} -c "{RUN.format(mean=mean, shift=shift, lasts=lasts_s)}"'

    call("status")
    cost = "2m"
    call("propose", command=command(2.31, 0), metric="val_loss", direction="min", replicates=3, noise=0.01, cost=cost)
    call("hypotheses", action="add", text="500 steps of warm-up lower val_loss", metric="val_loss", direction="min",
         mde=0.05, baseline="e1")  # fmt: skip
    call("propose", hypothesis="h1", command=command(2.11, 7), replicates=3, noise=0.01, cost=cost)
    with Lab.open(folder) as person:
        person.experiments.approve_all(["e1", "e2"])
    call("run", experiment="e1", every=True)
    call("run", experiment="e2", every=True)
    while call("wait", ids=["e1", "e2"])["because"] != "ended":
        continue
    call(
        "memory", action="write", file="notes/warm-up.md", content="# Warm-up\nh1 by e2 against e1: see its verdict.\n"
    )
    written = call("report")["text"]
    peer.leave()
    with Lab.open(folder) as lab:
        verdict = lab.hypotheses.get("h1").status
    assert verdict in written
    text, structured = (sum(column) for column in zip(*answers, strict=True))
    return {
        "campaign_calls": len(answers),
        "campaign_waits": len(answers) - 8,
        "campaign_text_tokens": text,
        "campaign_structured_tokens": structured,
        "campaign_sent_tokens": sum(sent),
        "campaign_supported": float(verdict == "supported"),
    }


def listed(folder: Path) -> dict[str, float]:
    """Returns the size of the list of tools, of all and of the core, in characters / 4 as it is sent."""
    found = {}
    for name, words in (("all", []), ("core", ["--tools", "core"])):
        peer = Peer([*SERVER, *words], folder).open()
        found[f"tools_{name}_tokens"] = len(json.dumps(peer.ask("tools/list"), separators=(",", ":"))) / 4
        peer.leave()
    return found


def make(folder: Path, experiments: int) -> Path:
    """Returns a project with so many experiments."""
    from perpetual import Lab

    with Lab.init(folder, name="bench") as lab:
        lab.hypotheses.add("warm-up lowers the loss", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
        for number in range(experiments):
            lab.experiments.propose(command=f"python train.py --seed {number}")
    return folder


def main() -> None:
    """Measures and prints; what is over its bound is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=10_000, help="experiments of the large record")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=100, help="calls a round")
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        small, large = make(Path(place) / "small", 10), make(Path(place) / "large", given.large)
        found: dict[str, float] = {
            **start(small, given.rounds),
            **warm(small, 15),
            **call(small, large, given.rounds, given.calls),
            **crowd(small, given.clients, given.calls),
            **campaign(Path(place) / "campaign"),
            **listed(small),
        }
    broken = [f"{name} {found[name]:.2f} > {bound}" for name, bound in BOUNDS.items() if found[name] > bound]
    shown = {name: round(value, 4) for name, value in found.items()}
    print(json.dumps({"schema": "perpetual.bench_mcp/1", "experiments": given.large, **shown, "broken": broken}))


if __name__ == "__main__":
    main()
