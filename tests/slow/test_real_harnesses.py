"""Real coding agents on what `perpetual init` wrote, against a model on 127.0.0.1: they start our server, offer our
tools to the model in their first request, and what it calls is in the lab's record.

The agents are npm packages at pinned versions, installed once into the user's cache; each runs in a home of its own.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.toolkit.lock import FileLock
from tests.fixtures.registries import fetch

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "tests" / "fixtures" / "harness_clients"
OUTSIDE = dict(os.environ)  # before a test clears it: npm needs the user's own configuration
STATEMENT = "Warm-up over 500 steps lowers validation loss"
MARK = "a marked dead end 7Q4"
STATE = "# The state of the research"
LIMIT_S = 300.0
# The agents' own programs: the packages' links to them are made by install scripts, which are not run.
NATIVE = {
    "claude": ("@anthropic-ai/claude-code-*/claude",),
    "codex": (".bin/codex",),
    "mcp-inspector": (".bin/mcp-inspector",),
    "opencode": ("opencode-*-baseline/bin/opencode", "opencode-*/bin/opencode"),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


model_server = _load(ROOT / "tests" / "fixtures" / "model_server.py")


@pytest.fixture(scope="session")
def clients() -> Path:
    """A folder with the programs of the agents."""
    return installed(PACKAGES, NATIVE)


def installed(packages: Path, native: Mapping[str, tuple[str, ...]]) -> Path:
    """Returns a folder with programs of npm packages, the same for every session that wants the same versions."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, and the agents come with it")
    version = hashlib.sha256((packages / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = Path(OUTSIDE.get("XDG_CACHE_HOME") or Path(OUTSIDE["HOME"]) / ".cache")
    folder = cache / "perpetual-harness-clients" / version
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "installing.lock"):
        if not (folder / "installed").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(packages / name, folder)
            quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--omit-lockfile-registry-resolved"]
            programs = folder / "programs"
            programs.mkdir(exist_ok=True)
            fetch([npm, "install", "--ignore-scripts", *quiet], cwd=folder, env=OUTSIDE, limit_s=500)
            for name, places in native.items():
                found = [path for place in places for path in sorted((folder / "node_modules").glob(place))]
                assert found, f"none of {places} was installed"
                (programs / name).unlink(missing_ok=True)
                (programs / name).symlink_to(found[0])
            (folder / "installed").touch()
    return folder / "programs"


@dataclass
class Bench:
    """A fresh project that `perpetual init` scaffolded, a home for the agent, and the model it talks to."""

    clients: Path
    folder: Path
    home: Path
    model: Any
    more: dict[str, str]

    @property
    def env(self) -> dict[str, str]:
        """Nothing of the caller's but where programs are; those that a test puts into the home's bin come first."""
        programs = [str(self.home / "bin"), str(Path(sys.executable).parent), str(self.clients), OUTSIDE["PATH"]]
        own = {f"XDG_{name}_HOME": str(self.home / name.lower()) for name in ("CONFIG", "CACHE", "DATA", "STATE")}
        return {"HOME": str(self.home), "PATH": os.pathsep.join(programs), "LANG": "C.UTF-8", **own, **self.more}

    def run(self, *command: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        """Runs in the project until it ends or the limit; then it and what it started are ended."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"{command} did not end within {limit_s:g} s\n{out}\n{err}")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left behind
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def check_effect(self, done: subprocess.CompletedProcess[str]) -> str:
        """The first request that offers tools has ours, the model's call is in the record; that request's text."""
        told = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        assert done.returncode == 0, told
        turns = self.model.turns()
        assert turns, told
        offered = list(turns[0].tools)
        for tool in ("perpetual_status", "perpetual_propose", "perpetual_hypotheses"):
            assert [name for name in offered if name.endswith(tool)], f"{tool} is not in {offered}"
        with Lab.open(self.folder) as lab:
            statements = [item.statement for item in lab.hypotheses.list().items]
        assert STATEMENT in statements, told
        assert turns[-1].answered, told
        return str(turns[0].text)

    def doctor(self, name: str) -> dict[str, Any]:
        """What the doctor says of the scaffold, with the agent on the PATH."""
        found = self.run("perpetual", "doctor", "--json")
        (finding,) = [c for c in json.loads(found.stdout)["checks"] if c["check"] == f"harness {name}"]
        return dict(finding)


@pytest.fixture
def bench(clients: Path, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes the bench of a harness."""
    home, folder = tmp_path / "home", tmp_path / "project"
    for state in (home / "state", home / ".local" / "state"):  # an agent hands its servers few variables on
        state.mkdir(parents=True)
        (state / "perpetual").symlink_to(os.environ["PERPETUAL_STATE_DIR"])
    folder.mkdir()
    with model_server.serving("perpetual_hypotheses", {"action": "add", "text": STATEMENT}) as model:

        def make(harness: str, **more: str) -> Bench:
            made = Bench(clients, folder, home, model, more)
            for command in (("init", "-H", harness), ("hypotheses", "add", MARK)):
                done = made.run("perpetual", *command)
                assert done.returncode == 0, done.stderr
            return made

        yield make


# --- Claude Code ----------------------------------------------------------------------------------------------------


@pytest.fixture
def claude(bench: Callable[..., Bench]) -> Bench:
    """Claude Code in a folder that a person has trusted."""
    made = bench(
        "claude-code",
        ANTHROPIC_API_KEY="x",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        CLAUDE_CODE_MAX_RETRIES="0",
        DISABLE_AUTOUPDATER="1",
        DISABLE_ERROR_REPORTING="1",
        DISABLE_TELEMETRY="1",
        # Its own limits for the start of a server would be reached where several programs share a slow processor.
        MCP_TIMEOUT="200000",
        MCP_CONNECT_TIMEOUT_MS="200000",
    )
    made.more["ANTHROPIC_BASE_URL"] = made.model.url
    trusted = {"projects": {str(made.folder): {"hasTrustDialogAccepted": True}}}
    (made.home / ".claude.json").write_text(json.dumps(trusted))
    return made


def test_claude_code_lists_the_server_and_the_doctor_says_so(claude: Bench) -> None:
    waiting = claude.doctor("claude-code")
    assert (waiting["ok"], "waits for a person" in waiting["detail"]) == (None, True), waiting
    assert "approve the MCP server" in waiting["hint"]
    (claude.home / ".claude").mkdir(exist_ok=True)
    approved = {"enabledMcpjsonServers": ["perpetual"]}  # what the person's yes leaves behind
    (claude.home / ".claude/settings.json").write_text(json.dumps(approved))
    done = claude.run("claude", "mcp", "get", "perpetual")
    assert done.returncode == 0, done.stderr
    assert "Scope: Project config" in done.stdout
    assert "Connected" in done.stdout
    found = claude.doctor("claude-code")
    assert (found["ok"], "claude mcp get perpetual lists it" in found["detail"]) == (True, True), found


def test_claude_code_works_in_the_lab(claude: Bench) -> None:
    done = claude.run(
        "claude", "-p", "Register the hypothesis.", "--output-format", "stream-json", "--verbose",
        "--model", "mock-model",
    )  # fmt: skip
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    start = next(event for event in events if event.get("subtype") == "init")
    assert [server["status"] for server in start["mcp_servers"] if server["name"] == "perpetual"] == ["connected"]
    assert "perpetual" in start["agents"]
    assert {"auto", "stop", "report", "catchup"} <= set(start["slash_commands"])
    first = claude.check_effect(done)
    (brief,) = [text[:1000] for text in first.split("hook additional context: ")[1:]]  # of one hook, once
    assert MARK in brief
    assert first.count(STATE) == 1  # the hook's: the server's instructions leave it out
    end = events[-1]
    assert (end["is_error"], end["permission_denials"]) == (False, [])


def test_claude_code_follows_the_agent_and_a_command(claude: Bench) -> None:
    done = claude.run(
        "claude", "-p", "/catchup the budget", "--agent", "perpetual", "--output-format", "json",
        "--model", "mock-model",
    )  # fmt: skip
    first = claude.check_effect(done)
    assert "You do machine-learning research" in first
    assert 'The person added: \\"the budget\\"' in first


# --- Codex ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def codex(bench: Callable[..., Bench]) -> Bench:
    """Codex in a folder that a person has trusted."""
    made = bench("codex", MOCK_KEY="x")
    place = made.home / ".codex"
    place.mkdir()
    place.joinpath("config.toml").write_text(
        'model = "mock-model"\nmodel_provider = "mock"\ncheck_for_update_on_startup = false\n\n'
        "[analytics]\nenabled = false\n\n"
        f'[model_providers.mock]\nname = "Mock"\nbase_url = "{made.model.url}/v1"\nwire_api = "responses"\n'
        'env_key = "MOCK_KEY"\nrequest_max_retries = 1\nstream_max_retries = 1\n\n'
        f'[projects.{json.dumps(str(made.folder))}]\ntrust_level = "trusted"\n'
    )
    return made


def test_codex_lists_the_server_and_the_doctor_says_so(codex: Bench) -> None:
    done = codex.run("codex", "mcp", "list", "--json")
    (entry,) = json.loads(done.stdout)
    assert (entry["name"], entry["enabled"], entry["startup_timeout_sec"]) == ("perpetual", True, 30.0)
    assert entry["transport"]["args"] == ["mcp"]
    found = codex.doctor("codex")
    assert (found["ok"], "codex mcp list --json lists it" in found["detail"]) == (None, True), found
    assert "Codex skips the hooks of .codex/hooks.json until a person accepts them" in found["detail"]
    _accept_hooks(codex)
    (codex.home / ".profile").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    found = codex.doctor("codex")
    assert (found["ok"], found["hint"]) == (True, None), found


def _accept_hooks(codex: Bench) -> None:
    """Writes down a person's yes to the hooks as Codex does, by the keys and checksums that it names itself."""
    with subprocess.Popen(
        ["codex", "app-server"], cwd=codex.folder, env=codex.env, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            hello = {"clientInfo": {"name": "test", "version": "0"}}
            for number, (method, params) in enumerate(
                (("initialize", hello), ("hooks/list", {"cwds": [str(codex.folder)]}))
            ):
                server.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
                server.stdin.flush()
                answer = next(m for m in map(json.loads, server.stdout) if m.get("id") == number)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
    hooks = answer["result"]["data"][0]["hooks"]
    assert {hook["trustStatus"] for hook in hooks} == {"untrusted"}
    with (codex.home / ".codex/config.toml").open("a") as file:
        for hook in hooks:
            file.write(f'\n[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n')


def test_the_doctor_names_untrusted_codex(codex: Bench) -> None:
    (codex.home / ".codex/config.toml").write_text("")
    found = codex.doctor("codex")
    assert (found["ok"], "waits for a person" in found["detail"]) == (None, True), found
    assert "codex exec --trust" in found["hint"]


def test_codex_works_in_the_lab(codex: Bench) -> None:
    done = codex.run(
        "codex", "exec", "--json", "--skip-git-repo-check", "--disable", "unbounded_connection_retries",
        "--dangerously-bypass-hook-trust", "Register the hypothesis.",
    )  # fmt: skip
    first = codex.check_effect(done)
    briefs = [item for item in codex.model.turns()[0].body["input"] if item.get("role") == "developer"]
    assert len([item for item in briefs if MARK in json.dumps(item)]) == 1  # the hook's
    assert first.count(STATE) == 1
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    calls = [event["item"] for event in events if event["type"] == "item.completed"]
    assert [(c["tool"], c["status"]) for c in calls if c["type"] == "mcp_tool_call"] == [
        ("perpetual_hypotheses", "completed")
    ]
    assert events[-1]["type"] == "turn.completed"
    assert "Research in this project" in first  # AGENTS.md
    assert all(f"perpetual-{name}" in first for name in ("auto", "stop", "report", "catchup"))


# --- OpenCode -------------------------------------------------------------------------------------------------------


@pytest.fixture
def opencode(bench: Callable[..., Bench]) -> Bench:
    """OpenCode, which asks for no trust."""
    made = bench(
        "opencode",
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
    )
    cost = {"input": 1, "output": 2, "cache_read": 0.1, "cache_write": 0}
    known = {"name": "Mock", "cost": cost, "limit": {"context": 100_000, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Mock",
        "options": {"baseURL": f"{made.model.url}/v1", "apiKey": "x"},
        "models": {"mock-model": known},
    }
    settings = {
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"mock": provider},
    }
    (made.home / "opencode.json").write_text(json.dumps(settings))
    made.more["OPENCODE_CONFIG"] = str(made.home / "opencode.json")
    # Otherwise its first start fetches the types of the plugin interface, which nothing here needs, and waits for them
    # for as long as the registry takes. It asks whether the folder is there and whether the lock file names them.
    locked = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    for place in (made.folder / ".opencode", made.home / "config" / "opencode"):
        (place / "node_modules").mkdir(parents=True)
        (place / "package-lock.json").write_text(json.dumps(locked))
    return made


def test_opencode_takes_every_file(opencode: Bench) -> None:
    done = opencode.run("opencode", "debug", "config")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mcp"]["perpetual"]["command"] == ["perpetual", "mcp"]
    assert found["agent"]["perpetual"]["color"] == "#a855f7"
    assert {"auto", "stop", "report", "catchup"} <= set(found["command"])
    assert [name for name in found["plugin"] if str(name).endswith("/.opencode/plugins/perpetual.ts")]
    before = (opencode.folder / "opencode.json").read_bytes()
    done = opencode.run("opencode", "mcp", "list")
    assert "perpetual" in done.stdout + done.stderr
    assert "connected" in done.stdout + done.stderr
    assert (opencode.folder / "opencode.json").read_bytes() == before


def test_opencode_works_in_the_lab(opencode: Bench) -> None:
    done = opencode.run("opencode", "run", "--format", "json", "--agent", "perpetual", "Register the hypothesis.")
    assert "Falling back" not in done.stderr
    first = opencode.check_effect(done)
    assert MARK in first.partition("from `perpetual brief`")[2][:1000]  # the plugin's
    assert first.count(STATE) == 1
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert not [event for event in events if event["type"] == "error"]
    assert [event["part"]["state"]["status"] for event in events if event["type"] == "tool_use"] == ["completed"]
    titles = [request for request in opencode.model.requests if not request.tools]
    assert titles, "no request for a title"
    assert not [request for request in titles if "from `perpetual brief`" in request.text]


def test_opencode_keeps_the_prompt_s_prefix_between_the_calls_of_a_turn(opencode: Bench) -> None:
    """A provider caches a prompt up to its first change; the turn writes to the record between its calls."""
    done = opencode.run("opencode", "run", "--format", "json", "--title", "t", "--agent", "perpetual", "Register it.")
    opencode.check_effect(done)
    first, second = opencode.model.turns()
    before, after = ([one for one in each.body["messages"] if one["role"] == "system"] for each in (first, second))
    assert before == after
    assert first.body["messages"] == second.body["messages"][: len(first.body["messages"])]
    (state,) = [text for text in map(json.dumps, before) if "from `perpetual brief`" in text]
    assert MARK in state
    assert "(event " not in state.partition("from `perpetual brief`")[2]
    listed = opencode.run("opencode", "agent", "list")
    assert re.search(r"^perpetual \(", listed.stdout, re.MULTILINE), listed.stdout


def test_opencode_s_plugin_is_silent_where_the_lab_drives_it(opencode: Bench) -> None:
    opencode.more["PERPETUAL_DISPATCH"] = "c-1"
    done = opencode.run("opencode", "run", "--format", "json", "--title", "t", "--command", "auto", "2")
    first = opencode.check_effect(done)
    assert "from `perpetual brief`" not in first
    assert "/auto is in force: when" not in first
    assert [event for event in json.loads(opencode.run("perpetual", "--json", "events").stdout)["items"]
            if event["kind"].startswith("loop.")] == []  # fmt: skip


def test_opencode_runs_a_command(opencode: Bench) -> None:
    done = opencode.run("opencode", "run", "--format", "json", "--title", "t", "--command", "catchup", "the budget")
    first = opencode.check_effect(done)
    assert "You do machine-learning research" in first
    assert 'The person added: \\"the budget\\"' in first  # in the quotes of OpenCode alone


def test_opencode_frees_the_loop_when_it_ends(opencode: Bench) -> None:
    """Under `opencode run` the process ends with its first turn."""
    done = opencode.run("opencode", "run", "--format", "json", "--title", "t", "--command", "auto", "5")
    assert "/auto is in force: when" in opencode.check_effect(done)
    found = json.loads(opencode.run("perpetual", "auto", "--json").stdout)
    assert (found["owner"], found["last_reason"]) == (None, "expired")


# --- what an agent may not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tool", "key", "words"),
    [
        ("claude", "Bash", "command", ["claude", "-p", "x", "--allowedTools", "Bash", "--model", "mock-model"]),
        ("codex", "exec_command", "cmd", ["codex", "exec", "--skip-git-repo-check", "--disable",
                                          "unbounded_connection_retries", "-s", "danger-full-access", "x"]),
        ("opencode", "bash", "command", ["opencode", "run", "--title", "t", "x"]),
    ],
)  # fmt: skip
def test_no_agent_approves_in_its_own_shell(
    request: pytest.FixtureRequest, name: str, tool: str, key: str, words: list[str]
) -> None:
    """Each agent marks the shells that it starts in a way of its own."""
    made: Bench = request.getfixturevalue(name)
    assert made.run("perpetual", "propose", "--command", "true").returncode == 0
    command = f"{sys.executable} -m perpetual approve e1 > said.txt 2>&1; echo exit $? >> said.txt"
    made.model.tool, made.model.arguments = tool, {key: command, "description": "approve"}
    done = made.run(*words)
    said = made.folder / "said.txt"
    assert said.exists(), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "approve is for a person; " in said.read_text()
    assert said.read_text().endswith("exit 4\n")
    with Lab.open(made.folder) as lab:
        assert lab.experiments.get("e1").status == "proposed"


def _until(what: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Waits for it; raises AssertionError after the limit."""
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


@dataclass
class Served:
    """An OpenCode server, where a session outlives the command that started it."""

    bench: Bench
    address: str  # host and port

    def run(self, *words: str) -> str:
        """Runs a command of the harness there; its session."""
        url = f"http://{self.address}"
        done = self.bench.run("opencode", "run", "--attach", url, "--format", "json", "--title", "t", *words)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout.splitlines()[0])["sessionID"])

    def ask(self, method: str, path: str) -> Any:
        """What the server answers."""
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT_S)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def is_idle(self, session: str) -> bool:
        """Whether no turn of it is under way: a command that comes before would be taken into that turn."""
        return session not in self.ask("GET", "/session/status")

    def rounds(self) -> list[str]:
        """What the plugin said to go on, in its order."""
        last = [request.body["messages"][-1] for request in self.bench.model.turns()]
        return [json.dumps(message) for message in last if _ROUND in json.dumps(message)]


_ROUND = "Go on with the next round of /auto"


@pytest.fixture
def served(opencode: Bench) -> Iterator[Served]:
    """The server, on a port that it chose itself, ended with all that it started."""
    said = opencode.home / "server.log"
    with said.open("w") as log:
        server = subprocess.Popen(
            ["opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"],
            cwd=opencode.folder,
            env=opencode.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def address() -> str | None:
        assert server.poll() is None, said.read_text()
        found = re.search(r"listening on http://(\S+)\n", said.read_text())
        return found and found[1]

    try:
        _until(address)
        yield Served(opencode, str(address()))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_auto_goes_on_in_opencode_as_often_as_it_was_asked(served: Served) -> None:
    session = served.run("--command", "auto", "2")
    model = served.bench.model
    _until(lambda: len(served.rounds()) == 2 and model.turns()[-1].answered and served.is_idle(session))
    served.run("--session", session, "--command", "stop", "")
    assert ["1 left" in text for text in served.rounds()] == [True, False]
    with Lab.open(served.bench.folder) as lab:  # one of the bench, and one of each turn: the first, two more, /stop
        assert len(lab.hypotheses.list().items) == 5


def test_auto_ends_in_opencode_where_the_record_did_not_move(served: Served) -> None:
    served.bench.model.tool = "perpetual_status"  # which changes nothing
    served.run("--command", "auto")
    served.run("--command", "catchup", "")  # of another session; by its end the first one has been idle
    assert served.rounds() == []


def test_auto_ends_in_opencode_where_a_person_interrupts(served: Served) -> None:
    model = served.bench.model
    model.hesitates = lambda request: _ROUND in json.dumps(request.body.get("messages", [{}])[-1])
    session = served.run("--command", "auto")
    _until(served.rounds)
    with Lab.open(served.bench.folder) as lab:
        lab.hypotheses.add("the record moves, so that alone would not end it")
    served.ask("POST", f"/session/{session}/abort")
    model.go_on.set()
    served.run("--command", "catchup", "")
    assert len(served.rounds()) == 1


def test_auto_ends_in_opencode_where_a_person_stops_it_while_the_record_is_looked_at(served: Served) -> None:
    """At the end of a turn the plugin asks whether to go on, and the answer takes its time."""
    home, real = served.bench.home, Path(sys.executable).with_name("perpetual")
    (home / "bin").mkdir()
    slow = home / "bin" / "perpetual"
    slow.write_text(
        f"""#!/bin/sh
cd {home} && if [ "$1 $2" = "auto next" ]
then touch asked; while [ ! -e answer ]; do sleep 0.05; done
fi
cd "$OLDPWD" && exec {real} "$@"
"""
    )
    slow.chmod(0o755)
    session = served.run("--command", "auto")
    _until((home / "asked").exists)
    served.run("--session", session, "--command", "stop", "")
    (home / "answer").touch()
    served.run("--command", "catchup", "")  # of another session; by its end the first one would have gone on
    assert served.rounds() == []


def test_auto_goes_on_in_opencode_over_acp(opencode: Bench) -> None:
    said = (opencode.home / "acp.log").open("w")
    server = subprocess.Popen(
        ["opencode", "acp"], cwd=opencode.folder, env=opencode.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=said, text=True, start_new_session=True,
    )  # fmt: skip

    def ask(id: int, method: str, **params: object) -> dict[str, Any]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == id and "method" not in answer:
                assert "error" not in answer, line
                return dict(answer["result"])
        raise AssertionError((opencode.home / "acp.log").read_text())

    try:
        ask(0, "initialize", protocolVersion=1, clientCapabilities={})
        session = ask(1, "session/new", cwd=str(opencode.folder), mcpServers=[])["sessionId"]
        ask(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "/auto 2"}])
        _until(lambda: len(_rounds(opencode)) == 2 and opencode.model.turns()[-1].answered)
        _until(lambda: json.loads(opencode.run("perpetual", "auto", "--json").stdout)["last_reason"] == "rounds")
        assert len(_rounds(opencode)) == 2
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate()
        said.close()


# --- the Stop hooks -------------------------------------------------------------------------------------------------

_AUTO = {
    "claude": ["claude", "-p", "/auto 2", "--output-format", "json", "--model", "mock-model"],
    "codex": ["codex", "exec", "--skip-git-repo-check", "--disable", "unbounded_connection_retries",
              "--dangerously-bypass-hook-trust", "$perpetual-auto 2"],
}  # fmt: skip


def _rounds(made: Bench) -> list[str]:
    """The requests that begin a further round: their last message is ours."""
    last = [(request.body.get("messages") or request.body.get("input"))[-1] for request in made.model.turns()]
    return [json.dumps(message) for message in last if _ROUND in json.dumps(message)]


@pytest.mark.parametrize("name", _AUTO)
def test_auto_goes_on_as_often_as_it_was_asked(request: pytest.FixtureRequest, name: str) -> None:
    made: Bench = request.getfixturevalue(name)
    made.check_effect(made.run(*_AUTO[name]))
    assert ["1 left" in text for text in _rounds(made)] == [True, False]
    with Lab.open(made.folder) as lab:  # one of the bench, and one of each turn
        assert len(lab.hypotheses.list().items) == 4
    found = json.loads(made.run("perpetual", "auto", "--json").stdout)
    assert (found["owner"], found["last_reason"]) == (None, "rounds")
    (left,) = found["handovers"]
    assert left["last_words"] == model_server.DONE
    assert left["harness"] == {"claude": "claude-code"}.get(name, name)


@pytest.mark.parametrize("name", _AUTO)
def test_auto_ends_where_the_record_did_not_move(request: pytest.FixtureRequest, name: str) -> None:
    made: Bench = request.getfixturevalue(name)
    made.model.tool, made.model.arguments = "perpetual_status", {}
    done = made.run(*_AUTO[name])
    assert done.returncode == 0, done.stderr
    assert _rounds(made) == []
    assert json.loads(made.run("perpetual", "auto", "--json").stdout)["last_reason"] == "no_news"


@pytest.mark.parametrize("name", _AUTO)
def test_hooks_are_silent_where_the_lab_drives_the_agent(request: pytest.FixtureRequest, name: str) -> None:
    made: Bench = request.getfixturevalue(name)
    made.more["PERPETUAL_DISPATCH"] = "c-1"
    first = made.check_effect(made.run(*_AUTO[name]))
    assert "/auto is in force: when" not in first
    assert _rounds(made) == []
    with Lab.open(made.folder) as lab:
        assert not [event for event in lab.feed.read() if event.kind.startswith("loop.")]


# --- the inspector --------------------------------------------------------------------------------------------------


def test_the_inspector_reads_the_scaffold(bench: Callable[..., Bench]) -> None:
    made = bench("mcp")
    done = made.run(
        "mcp-inspector", "--cli", "--config", ".mcp.json", "--server", "perpetual", "--method", "tools/list"
    )
    assert done.returncode == 0, done.stderr
    names = {tool["name"] for tool in json.loads(done.stdout)["tools"]}
    assert {"perpetual_status", "perpetual_propose", "perpetual_hypotheses"} <= names


def test_the_inspector_speaks_to_the_server_over_http(bench: Callable[..., Bench]) -> None:
    made = bench("mcp", PERPETUAL_MCP_TOKEN="0123456789abcdef0123")
    server = subprocess.Popen(
        ["perpetual", "mcp", "--http", "127.0.0.1:0"], cwd=made.folder, env=made.env, stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, executable=str(Path(sys.executable).with_name("perpetual")),
    )  # fmt: skip
    try:
        assert server.stderr is not None
        address = server.stderr.readline().split("listening on ")[1].split()[0]
        called = ["mcp-inspector", "--cli", address, "--transport", "http", "--method", "tools/call",
                  "--tool-name", "perpetual_status", "--header"]  # fmt: skip
        done = made.run(*called, "Authorization: Bearer 0123456789abcdef0123")
        assert done.returncode == 0, done.stderr
        assert MARK in json.loads(done.stdout)["content"][0]["text"]
        refused = made.run(*called, "Authorization: Bearer 0123456789abcdef9999")
        assert refused.returncode != 0
        assert MARK not in refused.stdout
    finally:
        server.terminate()
        server.communicate(timeout=60)
