"""`make agent-packages`: builds the packages that coding agents install by one line, from the templates of `init`.

- `harness_templates/packages/claude-code`: a plugin of Claude Code, with server, hooks, agent, commands and the skill;
- `harness_templates/packages/codex`: a plugin of Codex, with server and skills;
- `harness_templates/packages/skills`: the skills alone, for any agent that takes a folder of them;
- `.claude-plugin/marketplace.json`: by which both harnesses find their plugin in this repository.

A test runs `packages()` and fails when a committed file differs.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from perpetual import __version__
from perpetual.api import FilePlan
from perpetual_harnesses.template import TemplateHarness

ROOT = Path(__file__).parents[1]
FOLDER = "harness_templates/packages"
MARKETPLACE = ".claude-plugin/marketplace.json"

_NAME = "perpetual"
_CODEX = "perpetual-codex"  # Codex reads the same marketplace, and a plugin has the name that it has there
_ABOUT = "A lab for machine-learning research: hypotheses, experiments, evidence and notes on record, before the run."
_OWNER = "The Perpetual developers"
_COMMAND = ("perpetual",)
_STATE = "PERPETUAL_MCP_STATE"


def packages() -> dict[str, str]:
    """Returns every file of the packages with its text, by its path in the repository."""
    claude, codex = _plans("claude-code"), _plans("codex")
    skills = {
        plan.path.removeprefix(".agents/"): plan.text for plan in codex if plan.path.startswith(".agents/skills/")
    }
    own = {plan.path.removeprefix(".claude/"): plan.text for plan in claude if plan.how == "own"}
    method = "skills/perpetual/SKILL.md"
    found = {
        "claude-code": {
            ".claude-plugin/plugin.json": _json(_manifest()),
            ".mcp.json": _json(_servers(claude, state=False)),
            "hooks/hooks.json": _json({"hooks": _hooks(claude)}),
            method: skills[method],
            **own,
        },
        "codex": {
            ".codex-plugin/plugin.json": _json(
                {**_manifest(), "name": _CODEX, "skills": "./skills/", "mcpServers": "./.mcp.json"}
            ),
            ".mcp.json": _json(_servers(codex, state=True)),
            **skills,
        },
        "skills": {path.removeprefix("skills/"): text for path, text in skills.items()},
    }
    files = {f"{FOLDER}/{name}/{path}": text for name, each in found.items() for path, text in each.items()}
    return {MARKETPLACE: _json(_marketplace()), **files}


def _plans(name: str) -> tuple[FilePlan, ...]:
    return TemplateHarness(name).scaffold(project=_NAME, command=_COMMAND).files


def _manifest() -> dict[str, object]:
    return {
        "name": _NAME, "version": __version__, "description": _ABOUT, "author": {"name": _OWNER},
        "license": "MIT", "keywords": ["machine-learning", "research", "experiments", "mcp"],
    }  # fmt: skip


def _marketplace() -> dict[str, object]:
    plugins = [
        {"name": name, "source": f"./{FOLDER}/{folder}", "description": _ABOUT}
        for name, folder in ((_NAME, "claude-code"), (_CODEX, "codex"))
    ]
    return {"name": _NAME, "owner": {"name": _OWNER}, "metadata": {"description": _ABOUT}, "plugins": plugins}


def _servers(plans: tuple[FilePlan, ...], *, state: bool) -> dict[str, object]:
    """Returns the entry of the scaffold as a file of its own.

    Args:
        state: whether the server's instructions hold the state, as where no hook brings it.
    """
    entry = next(plan.value for plan in plans if plan.keys in (("mcpServers", _NAME), ("mcp_servers", _NAME)))
    own = {name: value for name, value in entry.get("env", {}).items() if name != _STATE}
    own |= {} if state else {_STATE: "0"}
    # A plugin is there in every project of a person: one without a lab must not keep the agent from its start.
    kept = {key: value for key, value in entry.items() if key not in ("required", "env")}
    return {"mcpServers": {_NAME: {**kept, **({"env": own} if own else {})}}}


def _hooks(plans: tuple[FilePlan, ...]) -> dict[str, list[object]]:
    """Returns the hooks of the scaffold, by event."""
    found: dict[str, list[object]] = {}
    for plan in plans:
        if plan.how == "json_items" and plan.keys[0] == "hooks":
            found.setdefault(plan.keys[1], []).extend(plan.value)
    return found


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the packages, and takes out what is no longer part of one."""
    files = packages()
    for path in sorted((ROOT / FOLDER).rglob("*")):
        if path.is_file() and path.relative_to(ROOT).as_posix() not in files:
            path.unlink()
            print(f"removed {path.relative_to(ROOT)}")
    for name, text in files.items():
        place = ROOT / name
        if not place.exists() or place.read_text("utf-8") != text:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            print(f"wrote {name}")
    for folder in sorted((ROOT / FOLDER).rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
