"""Every command of the program, bundled plugins' included, is documented and keeps the promise of its interface.

`TABLE` drives each command once to a success and once to a failure. A command that is missing from it fails a test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import click
import jsonschema
import pytest

from perpetual import Lab
from perpetual.api import Finding
from perpetual.cli.app import program, run
from perpetual.cli.table import ORDER
from perpetual.loop import EXITS
from perpetual.testing.projects import trust_project
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_devkit.server_check import ServerCheck

PROMISED = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130}
NOWHERE = ("--project", "nowhere-at-all")


SWEEP = "sweep new 'echo m={x}' --param x=0.0..1 --metric m --direction max --runs 2"


class Row(NamedTuple):
    """How a command is driven: `good` to exit 0 and a document of `schema`, `bad` to the exit status `exit`."""

    good: str | None  # None: not here, `why` says where instead
    schema: str | None
    bad: str
    exit: int
    before: tuple[str, ...] = ()  # commands that prepare the success
    why: str = ""


# In the prepared project: h1; e1 complete with r1; e2 proposed; e3 approved; e4 approved, sleeps; e5 approved, fails;
# v1 an opinion on h1; the note notes/a.md.
AGENT = "agent create scout --model test:echo"
AGENT_ON = (AGENT, "agent start scout")
AGENT_ASKS = ("agent create scout --model test:tools --tool goals --ask-before goals", "agent start scout",
              "agent message scout hello")  # fmt: skip
AGENT_KNOWS = (AGENT, "agent memory a1 set k v")
TABLE: dict[str, Row] = {
    "agent": Row("agent", "agents", "@nowhere agent", 5),
    "agent create": Row(AGENT, "agent", "agent create a1 --model test:echo", 2),
    "agent list": Row("agent list", "agents", "agent list --state nwe", 2),
    "agent show": Row("agent show scout", "agent", "agent show scuot", 5, (AGENT,)),
    "agent start": Row("agent start a1", "agent", "agent start a9", 5, (AGENT,)),
    "agent pause": Row("agent pause a1", "agent", "agent pause a9", 5, AGENT_ON),
    "agent resume": Row("agent resume a1", "agent", "agent resume a9", 5, (*AGENT_ON, "agent pause a1")),
    "agent stop": Row("agent stop a1", "agent", "agent stop a9", 5, AGENT_ON),
    "agent delete": Row("agent delete a1", "agent_deleted", "agent delete a9", 5, (AGENT,)),
    "agent set": Row("agent set a1 window=20", "agent", "agent set a9 window=1", 5, (AGENT,)),
    "agent limit": Row("agent limit a1 --usd 5", "agent", "agent limit a9 --usd much", 5, (AGENT,)),
    "agent message": Row("agent message a1 hello", "agent_message", "agent message a1 ''", 2, AGENT_ON),
    "agent wait": Row(
        "agent wait m1", "agent_message", "agent wait m9", 5, (*AGENT_ON, "agent message a1 hi --no-wait")
    ),
    "agent events": Row("agent events a1", "agent_messages", "agent events a9", 5, (AGENT,)),
    "agent logs": Row("agent logs a1", "agent_steps", "agent logs a1 --cursor x", 2, AGENT_ON),
    "agent checkpoint": Row("agent checkpoint a1", "agent_checkpoint", "agent checkpoint a9", 5, (AGENT,)),
    "agent restore": Row(
        "agent restore a1 now", "agent_restored", "agent restore a1 then", 5, (AGENT, "agent checkpoint a1 --label now")
    ),
    "agent fork": Row("agent fork a1", "agent", "agent fork a9", 5, (AGENT,)),
    "agent compare": Row("agent compare a1 a2", "agent_comparison", "agent compare a1", 2, (AGENT, "agent fork a1")),
    "agent goals": Row("agent goals a1", "agent_goals", "agent goals a9", 5, (AGENT,)),
    "agent goals add": Row("agent goals a1 add more", "agent_goals", "agent goals a1 add ''", 2, (AGENT,)),
    "agent goals update": Row(
        "agent goals a1 update g1 --progress 0.5", "agent_goals", "agent goals a1 update g9 --progress 1", 5,
        (AGENT, "agent goals a1 add more"),
    ),
    "agent timer": Row("agent timer a1 --every 1h", "agent_timer", "agent timer a1 --every soon", 2, (AGENT,)),
    "agent approvals": Row("agent approvals", "agent_approvals", "agent approvals a9", 5, (AGENT,)),
    "agent approve": Row("agent approve q1", "agent_approval", "agent approve q9", 5, AGENT_ASKS),
    "agent deny": Row("agent deny q1 --why no", "agent_approval", "agent deny q9 --why no", 5, AGENT_ASKS),
    "agent tools": Row("agent tools", "agent_tools", "@nowhere agent tools", 5),
    "agent export": Row(
        "agent export a1 -o a.json", "agent_exported", "agent export a1 -o nowhere/a.json", 5, (AGENT,)
    ),
    "agent import": Row(
        "agent import a.json --name copy", "agent", "agent import nothing.json", 5, (AGENT, "agent export a1 -o a.json")
    ),
    "agent memory": Row("agent memory a1", "agent_memories", "agent memory a9", 5, (AGENT,)),
    "agent memory set": Row(
        "agent memory a1 set k v", "agent_memory_write", "agent memory a9 set k v", 5, (AGENT,)
    ),
    "agent memory get": Row("agent memory a1 get k", "agent_memory", "agent memory a1 get j", 5, AGENT_KNOWS),
    "agent memory search": Row(
        "agent memory a1 search v", "agent_memory_hits", "agent memory a9 search v", 5, AGENT_KNOWS
    ),
    "agent memory list": Row(
        "agent memory a1 list", "agent_memories", "agent memory a9 list", 5, AGENT_KNOWS
    ),
    "agent memory delete": Row(
        "agent memory a1 delete k", "agent_memory_deleted", "agent memory a1 delete j", 5, AGENT_KNOWS
    ),
    "agent memory history": Row(
        "agent memory a1 history k", "agent_memories", "agent memory a1 history j", 5, AGENT_KNOWS
    ),
    "agent memory release": Row(
        None, "agent_memory", "agent memory a1 release k --why x", 5,
        why="needs a text that the gates quarantine: tests/plugins/agents/test_memory.py",
    ),
    "agent memory consolidate": Row(
        "agent memory a1 consolidate", "agent_memory_consolidated", "agent memory a9 consolidate", 5, (AGENT,)
    ),
    "aa": Row("aa e1 --dry-run", "aa_plan", "aa e1 --runs 3", 2),
    "init": Row("init", "init", "init -H nobody", 2),
    "status": Row("status", "status", "@nowhere status", 5),
    "brief": Row("brief --tokens 300", "brief", "brief --tokens 0", 2),
    "hook": Row("hook session-start", "hook", "hook session-strat", 0),
    "hypotheses add": Row("hypotheses add 'wider is better' --tag a", "hypothesis", "hypotheses add x --prior 2", 2),
    "hypotheses list": Row("hypotheses list", "hypotheses", "hypotheses list --status opne", 2),
    "hypotheses show": Row("hypotheses show H1", "hypothesis", "hypotheses show h99", 5),
    "hypotheses update": Row("hypotheses update h1 --tag b", "hypothesis", "hypotheses update h1 --prior 0.3", 6),
    "propose": Row("propose -h h1 --command 'python x.py'", "experiment", "propose -h h99 --command true", 5),
    "rebaseline": Row("rebaseline e1", "experiment", "rebaseline e2", 6),
    "power": Row("power e1 --noise 0.1", "power", "power e99", 5),
    "overturn": Row("overturn h1", "overturn", "overturn h99", 5),
    "approve": Row("approve e2", "experiment", "approve e99", 5),
    "reject": Row("reject e2 --why 'too dear'", "experiment", "reject e2", 2),
    "experiments": Row("experiments", "experiments", "experiments e99", 5),
    "run": Row("run e3 --wait", "run", "run e2", 4),
    "try": Row("try 'echo acc=0.95' --against e1 --replicates 1", "try", "try 'echo acc=1' --against e99", 5),
    "runs": Row("runs", "runs", "runs --status dnoe", 2),
    "logs": Row("logs r1", "logs", "logs r99", 5),
    "kill": Row("kill r2 --grace 0", "run", "kill r1", 6, ("run e4",)),
    "retry": Row("retry r2", "run", "retry r1", 6, ("run e5 --wait",)),
    "wait": Row("wait r1", "run", "wait r1 --timeout 3x", 2),
    "queue": Row("queue", "queue", "queue sideways", 2),
    "queue pause": Row("queue pause", "queue", "queue pause x", 2),
    "queue resume": Row("queue resume", "queue", "queue resume x", 2),
    "queue drain": Row("queue drain", "queue", "queue drain x", 2),
    "queue group": Row("queue group big --parallel 2", "queue", "queue group big --parallel x", 2),
    "queue priority": Row(None, "queue", "queue priority r99 1", 5, why="tests/plugins/dispatch/test_order.py"),
    "queue stash": Row(None, "queue", "queue stash r99", 5, why="tests/plugins/dispatch/test_order.py"),
    "queue enqueue": Row(None, "queue", "queue enqueue r99", 5, why="tests/plugins/dispatch/test_order.py"),
    "queue after": Row(None, "experiment", "queue after e99 e1", 5, why="tests/plugins/dispatch/test_order.py"),
    "export": Row("export --jsonl -o runs.jsonl", "export", "export --csv --what nothing", 2),
    "mirror": Row("mirror --to tensorboard --dry-run", "mirror", "mirror --to nothing", 2),
    "notify": Row("notify", "notify_list", "@nowhere notify", 5),
    "notify list": Row("notify list", "notify_list", "@nowhere notify list", 5),
    "notify test": Row(
        None, "notify_test", "notify test nothing", 2, why="reaches a server: tests/plugins/notify/test_sending.py"
    ),
    "notify send": Row(None, "notify_send", "notify send", 2, why="as notify test"),
    "campaign": Row("campaign", "campaigns", "@nowhere campaign", 5),
    "campaign list": Row("campaign list", "campaigns", "@nowhere campaign list", 5),
    "campaign show": Row(None, "campaign", "campaign show nothing", 5, why="tests/plugins/campaign/test_command.py"),
    "campaign new": Row(
        None, "campaign", "campaign new x --command true --metric m --direction min", 2,
        why="needs a repository: tests/plugins/campaign/test_command.py",
    ),
    "campaign adopt": Row(
        None, "campaign", "campaign adopt nowhere", 5, why="needs a repository: tests/plugins/campaign/test_adopting.py"
    ),
    "campaign candidate": Row(
        None, "campaign_candidate", "campaign candidate nothing idea", 5, why="tests/plugins/campaign/test_command.py"
    ),
    "campaign submit": Row(
        None, "campaign_candidate", "campaign submit c99", 5, why="tests/plugins/campaign/test_command.py"
    ),
    "campaign think": Row(None, "campaign", "campaign think nothing", 5, why="tests/plugins/campaign/test_thinker.py"),
    "campaign drop": Row(
        None, "campaign_candidate", "campaign drop c99 --why x", 5, why="tests/plugins/campaign/test_command.py"
    ),
    "campaign finalize": Row(
        None, "campaign_branches", "campaign finalize nothing", 5, why="tests/plugins/campaign/test_campaign.py"
    ),
    "campaign close": Row(None, "campaign", "campaign close nothing", 5, why="tests/plugins/campaign/test_command.py"),
    "scan": Row("scan", "scan", "@nowhere scan", 5),
    "evidence list": Row("evidence list", "evidence_list", "evidence list --hypothesis h99", 5),
    "evidence add": Row(
        "evidence add h1 --verdict supports --why 'seen elsewhere'", "evidence",
        "evidence add h1 --verdict proves --why x", 2,
    ),
    "evidence retract": Row("evidence retract v1 --why mistaken", "evidence", "evidence retract v99 --why x", 5),
    "evidence refold": Row("evidence refold --check", "refold", "@nowhere evidence refold", 5),
    "records": Row("records", "record_kinds", "records nothing", 5),
    "daemon": Row("daemon --dry-run", "daemon_plan", "daemon --once --max-cycles 2", 2),
    "daemon status": Row("daemon status", "daemon_status", "@nowhere daemon status", 5),
    "daemon stop": Row("daemon stop", "daemon_status", "daemon stop --grace soon", 2),
    "daemon logs": Row(None, "daemon_log", "daemon logs -n 0", 2, why="tests/plugins/daemon/test_daemon.py"),
    "daemon install": Row("daemon install --print", "daemon_unit", "@nowhere daemon install", 5),
    "daemon uninstall": Row("daemon uninstall --print", "daemon_unit", "@nowhere daemon uninstall", 5),
    "auto": Row("auto", "auto", "@nowhere auto", 5),
    "auto status": Row("auto status", "auto", "@nowhere auto status", 5),
    "auto start": Row("auto start --session s-1 --rounds 2", "auto", "auto start --session s-1 --rounds 99", 2),
    "auto next": Row("auto next --session s-1", "auto_next", "auto next", 2),
    "auto stop": Row("auto stop", "auto", "@nowhere auto stop", 5),
    "services": Row("services", "services", "@nowhere services", 5),
    "services list": Row("services list", "services", "@nowhere services list", 5),
    "services start": Row(
        None, "service", "services start nothing", 5, why="tests/plugins/supervisor/test_services.py"
    ),
    "services stop": Row(None, "service", "services stop nothing", 5, why="tests/plugins/supervisor/test_services.py"),
    "budget": Row("budget", "budget", "@nowhere budget", 5),
    "budget set": Row("budget set 20", "budget", "budget set -1", 2),
    "ask": Row(None, "ask", "ask x --harness nothing", 5, why="tests/plugins/harnesses"),
    "auth": Row("auth", "logins", "auth nothing", 2),
    "auth login": Row(None, "words", "auth login nothing", 5, why="it hands the terminal over"),
    "chat": Row(None, "words", "chat --harness nothing", 5, why="it hands the terminal over"),
    "turns list": Row("turns list", "turns", "turns list --cursor x", 2),
    "turns show": Row(None, "turn", "turns show turn-9", 5, why="tests/plugins/harnesses"),
    "thoughts list": Row("thoughts list", "thoughts", "thoughts list --cursor x", 2),
    "thoughts show": Row(None, "thought", "thoughts show thought-9", 5, why="tests/plugins/thinkers"),
    "memory show": Row("memory show notes/a.md", "note", "memory show notes/b.md", 5),
    "memory write": Row("memory write notes/b.md text", "memory_write", "memory write ../x.md text", 2),
    "memory list": Row("memory list notes", "notes", "memory list --status nwe", 2),
    "memory search": Row("memory search text -k 3", "note_hits", "memory search '?!'", 2),
    "memory block": Row("memory block text --tokens 100", "memory_block", "memory block --tokens 1", 2),
    "memory replay": Row("memory replay", "memory_replay", "memory replay notes/a.md", 2),
    "memory bisect": Row(
        None, "memory_bisect", "memory bisect --good soon", 2, why="needs tasks: tests/plugins/replay/test_bisect.py"
    ),
    "memory scan": Row("memory scan .perpetual/config.yaml", "memory_scan", "memory scan none.txt", 2),
    "memory history": Row("memory history notes/a.md", "note_history", "memory history notes/b.md", 5),
    "memory queue": Row("memory queue", "note_queue", "memory queue --cursor x", 2),
    "memory new": Row(
        "memory new tool_policy --title 'No rm' --field tool=rm --field rule=ask --field reason=lost", "memory_write",
        "memory new tool_policy --title x", 2,
    ),
    "memory edit": Row(
        None, "memory_write", "memory edit notes/a.md", 2, why="needs a terminal: tests/plugins/notes/test_editing.py"
    ),
    "memory promote": Row(
        "memory promote notes/a.md --why 'seen three times'", "memory_decision",
        "memory promote notes/a.md --why x --blob 123", 6,
    ),
    "memory clone": Row("memory clone my-notes", "memory_clone", "memory clone .", 6),
    "memory reject": Row(
        "memory reject notes/a.md --why no", "memory_decision", "memory reject notes/b.md --why x", 5
    ),
    "memory lineage": Row("memory lineage notes/a.md", "memory_lineage", "memory lineage notes/b.md", 5),
    "methodology show": Row("methodology show", "methodology", "@nowhere methodology show", 5),
    "methodology init": Row("methodology init", "methodology", "@project methodology init", 6, ("@unlink",)),
    "methodology unset": Row("methodology unset alpha", "setting", "methodology unset alhpa", 2),
    "methodology set": Row("methodology set alpha 0.05", "setting", "methodology set alpha 7", 2),
    "config show": Row("config show --origin", "config", "@nowhere config show", 5),
    "config unset": Row("config unset gpus", "setting", "config unset gpsu", 2),
    "config set": Row("config set gpus none", "setting", "config set gpsu none", 2),
    "mcp": Row("mcp", None, "@nowhere mcp", 5),
    "events": Row("events --limit 3", "events", "events --cursor x", 2),
    "gc": Row("gc --dry-run", "gc", "gc --yes --dry-run", 2),
    "gpu-status": Row("gpu-status", "gpu_status", "@nowhere gpu-status", 5),
    "digest": Row("digest --since 2d", "digest", "digest --since soon", 2),
    "early-stop": Row("early-stop --dry-run", "early_stop", "early-stop --dry-run --stopper nope", 2),
    "doctor": Row("doctor", "doctor", "@nowhere doctor", 5),
    "plugins list": Row("plugins list", "plugins", "@nowhere plugins list", 5),
    "plugins show": Row("plugins show tinydb", "plugin", "plugins show tinidb", 5),
    "plugins retry": Row("plugins retry tinydb", "plugin", "plugins retry tinidb", 5),
    "plugins new": Row("plugins new walked --slot gate", "plugin_new", "plugins new walked --slot gaet", 2),
    "plugins check": Row("plugins check tinydb --no-suites", "plugins_check", "plugins check tinidb", 5),
    "plugins install": Row(
        None, "plugins_install", "plugins install sqlite", 2, why="changes the environment: tests/plugins/devkit"
    ),
    "plugins remove": Row(
        None, "plugins_remove", "plugins remove tinydb", 2, why="changes the environment: tests/plugins/devkit"
    ),
    "plugins search": Row(
        None, "plugins_search", "plugins search '?!'", 2, why="asks a package index: tests/plugins/devkit"
    ),
    "uninstall": Row(None, "uninstall", "uninstall", 2, why="looks at every project of the user: tests/plugins/devkit"),
    "chaos": Row("chaos --kills 2 --writers 2", "chaos", "chaos --writers 0", 2),
    "bench-policy": Row(
        "bench-policy --policy decisive --episodes 1 --jobs 1 --thresholds 0.8 --batch 1", "bench_policy",
        "bench-policy --policy nobody", 2,
    ),
    "sweep new": Row(
        f"{SWEEP} --settings 3", "sweep", "sweep new 'echo {x}' --param y=1,2 --metric m --direction max", 2
    ),
    "sweep list": Row("sweep list", "sweeps", "sweep list --cursor x", 2),
    "sweep show": Row("sweep show sweep-1", "sweep", "sweep show sweep-9", 5, (SWEEP,)),
    "sweep importance": Row(
        "sweep importance sweep-1", "sweep_importance", "sweep importance sweep-9", 5, (SWEEP,)
    ),
    "sweep add": Row("sweep add sweep-1 x=0.5", "sweep", "sweep add sweep-1 x", 2, (SWEEP,)),
    "sweep suggest": Row("sweep suggest sweep-1 -n 2", "sweep", "sweep suggest sweep-9", 5, (SWEEP,)),
    "sweep pruned": Row(
        "sweep pruned sweep-1", "sweep_pruned", "sweep pruned sweep-1 --pruner best", 2,
        (SWEEP.replace("{x}", "{x} {rung}") + " --rungs 1,3",),
    ),
    "sweep next": Row("sweep next sweep-1 -k 2", "experiments", "sweep next sweep-1 -k 0", 2, (SWEEP,)),
    "sweep approve": Row("sweep approve sweep-1", "sweep", "sweep approve sweep-9", 5, (SWEEP,)),
    "sweep run": Row("sweep run sweep-1 --runs 1 --wait", "sweep", "sweep run sweep-9", 5, (SWEEP,)),
    "sweep claim": Row(
        "sweep claim sweep-1 --baseline 0.5 --mde 0.1", "sweep_claim", "sweep claim sweep-9 --baseline 0.5", 5,
        (SWEEP, "sweep run sweep-1 --runs 1 --wait"),
    ),
    "store stats": Row("store stats", "store_stats", "@nowhere store stats", 5),
    "store verify": Row("store verify", "store_verify", "@nowhere store verify", 5),
    "store compact": Row("store compact", "store_compact", "@nowhere store compact", 5),
    "store export": Row("store export -o record.jsonl", "store_export", "store export -o nowhere/record.jsonl", 1),
    "store import": Row(
        "--project fresh store import record.jsonl", "store_import", "store import nothing.jsonl", 2,
        ("store export -o record.jsonl", "init -t fresh -H mcp"),
    ),
    "store migrate": Row("store migrate sqlite --dry-run", "store_migrate", "store migrate sqlit", 2),
    "trust": Row("trust --yes", "trust", "trust --show --yes", 2),
    "trust list": Row("trust list", "trusted", "trust list --show", 2),
    "trust revoke": Row("trust revoke", "trust_revoked", "trust revoke nowhere", 5),
    "completion": Row("completion zsh", "completion", "completion tcsh", 2),
    "edit": Row("edit e2 --wall 30m", "experiment", "edit e1 --wall 30m", 6),
    "undo": Row("undo --dry-run", "undone", "@nowhere undo", 5),
    "archive": Row("archive e1", "archived", "archive e3", 6),
    "find": Row("find deeper", "found", "find the", 2),
    "watch": Row("watch --once", "watch", "@nowhere watch", 5),
    "help": Row("help runs", "help", "help rnus", 2),
    "report": Row("report -o report.md", "report", "report --format pdf", 2),
    "verify": Row("verify report.md", "verification", "verify report-file", 2, ("report -o report.md",)),
    "calibration": Row("calibration", "calibration", "@nowhere calibration", 5),
    "rights": Row("rights", "rights", "@nowhere rights", 5),
    "rights revoke": Row(
        "rights revoke agent:a claim-run --why look", "right_changed", "rights revoke agent:a claim --why look", 2
    ),
    "rights restore": Row(
        "rights restore agent:a claim-run --why fine", "right_changed", "rights restore agent:a claim-run --why x", 2,
        ("rights revoke agent:a claim-run --why look",),
    ),
    "believed": Row("believed --at seq:1", "believed", "believed --at soon", 2),
    "curves": Row(None, "curves", "curves e99", 5, why="no run of the walk logs steps: tests/plugins/curves"),
    "compare": Row("compare e1 e3", "comparison", "compare e1 e99", 5),
    "adopt": Row("adopt results.tsv", "adoption", "adopt nowhere-at-all", 5),
    "demo": Row(None, "demo", "demo report-file", 2, why="trains for most of a minute: tests/plugins/demo"),
}  # fmt: skip
FAILS = sorted({*TABLE} - {"hook"})  # which answers nothing, exit 0: tests/plugins/loop/test_hooks.py


# --- the tree -----------------------------------------------------------------------------------------------


def walk(group: click.Group, ctx: click.Context, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group with its full name, groups included."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        full = f"{path} {name}".strip()
        yield full, command
        if isinstance(command, click.Group):
            yield from walk(command, click.Context(command, parent=ctx, info_name=name), full)


@pytest.fixture(scope="module")
def tree() -> dict[str, click.Command]:
    """All commands by their full names."""
    assert isinstance(program, click.Group)
    return dict(walk(program, click.Context(program, info_name="perpetual")))


def leaves(tree: dict[str, click.Command]) -> dict[str, click.Command]:
    """The commands that do something by themselves."""
    return {
        name: command
        for name, command in tree.items()
        if not isinstance(command, click.Group) or command.invoke_without_command
    }


def test_every_promised_command_is_there(tree: dict[str, click.Command]) -> None:
    assert set(ORDER) <= set(tree)
    assert {"report", "demo", "adopt"} <= set(tree)


def test_every_command_is_in_the_table(tree: dict[str, click.Command]) -> None:
    assert set(leaves(tree)) == set(TABLE)
    assert all(row.why for row in TABLE.values() if row.good is None)


def test_every_command_has_help_a_docstring_and_a_help_for_each_option(tree: dict[str, click.Command]) -> None:
    for name, command in tree.items():
        assert command.help, name
        assert command.callback is not None, name
        assert command.callback.__doc__, name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"
                assert parameter.help[-1] in ".])", f"{name} {parameter.opts}: {parameter.help}"


def test_every_command_takes_json(tree: dict[str, click.Command]) -> None:
    for name, command in leaves(tree).items():
        assert any("--json" in parameter.opts for parameter in command.params), name


def test_every_creating_command_takes_an_idempotency_key(tree: dict[str, click.Command]) -> None:
    for name in ("hypotheses add", "propose", "try", "run", "retry", "evidence add", "memory write"):
        assert any("--idempotency-key" in parameter.opts for parameter in tree[name].params), name


def test_the_list_of_commands_names_each_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help", "--all"]) == 0
    shown = capsys.readouterr().out
    for name in {name.split()[0] for name in TABLE}:
        assert f"\n  {name} " in shown


# --- driving it ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A project in which every command has something to work on; copied for each test."""
    folder = tmp_path_factory.mktemp("walk") / "project"
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("PERPETUAL_") or name in AGENT_VARIABLES:
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        with Lab.init(folder, name="walk") as lab:
            claim = lab.hypotheses.add("deeper is better", metric="acc", direction="max", mde=0.1, baseline=0.5)
            measure = f"{sys.executable} -c 'print(\"acc=0.9\")'"
            for command in (measure, "true", "echo acc=0.8", "sleep 60", "false"):
                made = lab.experiments.propose(claim.id, command=command, title=command[:20])
                if made.id != "e2":
                    lab.experiments.approve(made.id)
            (first,) = lab.runs.launch("e1")
            assert lab.wait([first.id], timeout_s=60) == {"r1": "done"}
            lab.evidence.add(claim.id, verdict="supports", why="a hunch")
            lab.memory.write("notes/a.md", "# Depth\nhelps so far")
    return folder


@pytest.fixture
def place(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the prepared project, as working directory; what was started in it has ended afterwards."""
    folder = tmp_path / "project"
    shutil.copytree(prepared, folder, symlinks=True)
    trust_project(folder, like=prepared)
    (folder / "report-file").write_text("no folder", "utf-8")
    (folder / "results.tsv").write_text("commit\tval_loss\tstatus\nabc1234\t0.5\tkeep\n", "utf-8")
    monkeypatch.chdir(folder)
    # The server that the doctor would start is started by a test of its own.
    monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))
    yield folder
    journal = Path(".perpetual/store/journal.jsonl")
    if (folder / journal).exists() and (folder / journal).read_bytes() == (prepared / journal).read_bytes():
        return  # nothing was started
    with Lab.open(folder) as lab:
        lab.queue.set_state("paused")
        for live in [*lab.runs.live()]:
            if lab.runs.get(live.id).status in ("queued", "launching", "running"):
                lab.runs.kill(live.id, grace_s=0.0)


def words(line: str) -> list[str]:
    """The words of a line of the table."""
    import shlex

    found = shlex.split(line)
    if found[0] == "@nowhere":
        return [*NOWHERE, *found[1:]]
    return found[1:] if found[0] == "@project" else found


def prepare(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs what stands before a success."""
    for line in row.before:
        if line == "@unlink":
            Path(".perpetual/methodology.yaml").unlink()
        else:
            run(words(line))
    capsys.readouterr()


def only_document(text: str) -> dict[str, Any]:
    """The one JSON document that this is; NaN and infinity are none."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(text, parse_constant=refuse)
    assert isinstance(document, dict)
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return document


def check(document: dict[str, Any], name: str) -> None:
    """Raises unless the document fits its shipped schema."""
    shape = json.loads((files("perpetual_cli") / "schemas" / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate(document)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.good is not None and row.schema])
def test_success_is_one_document_of_its_schema(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    row = TABLE[name]
    assert row.good is not None
    assert row.schema is not None
    prepare(row, capsys)
    code = run([*words(row.good), "--json"])
    out = capsys.readouterr().out
    assert code == 0, out
    document = only_document(out)
    if name != "hook":
        assert document["schema"] == f"perpetual.{row.schema}/1"
    check(document, row.schema)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.good is not None and row.schema])
def test_success_shows_text_to_people(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    row = TABLE[name]
    assert row.good is not None
    prepare(row, capsys)
    assert run(words(row.good)) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() or name == "logs"
    assert '"schema"' not in shown.out
    assert "error:" not in shown.err


@pytest.mark.parametrize("name", FAILS)
def test_failure_is_one_error_document(place: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    row = TABLE[name]
    code = run([*words(row.bad), "--json"])
    shown = capsys.readouterr()
    assert code == row.exit, shown
    assert code in PROMISED
    document = only_document(shown.out)
    check(document, "error")
    error = document["error"]
    assert (document["schema"], error["exit"]) == ("perpetual.error/1", code)
    assert error["code"] != "internal"
    assert error["message"]


@pytest.mark.parametrize("name", FAILS)
def test_a_failure_is_printed_on_standard_error_alone(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    row = TABLE[name]
    assert run(words(row.bad)) == row.exit
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("name", FAILS)
def test_an_unknown_option_is_exit_2_and_one_document(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code = run([*name.split(), "--no-such-option", "--json"])
    document = only_document(capsys.readouterr().out)
    assert (code, document["error"]["code"], document["error"]["exit"]) == (2, "usage", 2)


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in TABLE}))
def test_help_is_shown_without_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: perpetual ")


@pytest.mark.slow
def test_the_mcp_server_ends_with_its_client_and_prints_nothing_else(place: Path) -> None:
    command = [sys.executable, "-m", "perpetual", "mcp"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr


def test_the_stop_reasons_of_the_loop_are_promised_exits() -> None:
    assert set(EXITS.values()) <= PROMISED


# --- the options before the command -------------------------------------------------------------------------


def test_json_is_asked_for_before_the_command_or_by_the_environment(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["--json", "hypotheses", "list"]) == 0
    before = only_document(capsys.readouterr().out)
    monkeypatch.setenv("PERPETUAL_OUTPUT", "json")
    assert run(["hypotheses", "list"]) == 0
    assert only_document(capsys.readouterr().out) == before
    assert run(["hypotheses", "show", "h99"]) == 5
    check(only_document(capsys.readouterr().out), "error")
    assert run(["--version"]) == 0
    check(only_document(capsys.readouterr().out), "version")


@pytest.mark.parametrize("arguments", [(), ("memory",), ("plugins",)])
def test_a_missing_command_is_exit_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(["--json", *arguments]) == 2
    check(only_document(capsys.readouterr().out), "error")
    assert run(arguments) == 2
    assert capsys.readouterr().out.startswith("Usage: perpetual")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stauts",), "unknown command 'stauts': did you mean status"),
        (("--prject", "x", "status"), "No such option"),
        (("memory", "shw"), "No such command 'shw'"),
        (("hypotheses", "add", "caf\udce9"), "is not UTF-8"),
    ],
)
def test_a_wrong_line_is_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert run([*arguments, "--json"]) == 2
    document = only_document(capsys.readouterr().out)
    assert message in document["error"]["message"]


def test_escapes_in_an_error_are_made_visible(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["experiments", "e\x1b[31m9"])
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\\x1b[31m" in shown
