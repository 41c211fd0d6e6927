"""The fast path: `--version`, `--help`, `status`, `brief` and `hook` answered from files that are kept anyway.

Imported by `perpetual.entry`, and for its renderers by the commands that do the same the long way. It declines (answers
None) whenever something is not exactly as expected: an option it does not know, a stale status, a cache that is
missing, a user's own configuration. It never computes.
"""

from __future__ import annotations

import os

from perpetual.toolkit import cache_files, caches
from perpetual.toolkit.agents import DISPATCH, mark
from perpetual.toolkit.reserved import known_name

TYPE_CHECKING = False  # as typing's, whose import this path cannot afford
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from perpetual.documents.status import Brief, Hook, LabStatus, ServiceNow, Totals
    from perpetual.documents.trust import TrustNow

__all__ = [
    "HOOKS",
    "answer",
    "brief_document",
    "hook_document",
    "hook_event",
    "keep_help",
    "kept_status",
    "status_document",
    "status_text",
]

# hook NAME -> the harness's name of the event; both kinds of event take context for the agent
HOOKS = {"session-start": "SessionStart", "user-prompt": "UserPromptSubmit"}
_MOST_INPUT, _SILENCE_S = 64 * 1024 * 1024, 2.0  # bytes of an event; a harness writes it at once
_input: list[bytes] = []


def status_document(status: LabStatus) -> dict[str, object]:
    """Returns `perpetual status --json`: the kept document without what only the brief needs."""
    return {"schema": "perpetual.status/1", **{key: value for key, value in status.items() if key != "brief"}}


def brief_document(text: str, tokens: int) -> Brief:
    """Returns `perpetual brief --json`."""
    from perpetual.brief import tokens_of

    return {"text": text, "tokens": tokens_of(text), "limit_tokens": tokens}


def hook_document(name: str, text: str) -> Hook:
    """Returns what a harness's hook prints: the brief as context of that event."""
    return {"hookSpecificOutput": {"hookEventName": HOOKS[name], "additionalContext": text}}


def hook_input() -> bytes:
    """Returns what a harness wrote to standard input, the same at each call; nothing of a terminal or a silent pipe."""
    import select

    try:
        is_open = not _input and not os.isatty(0)
        while is_open and sum(map(len, _input)) <= _MOST_INPUT and select.select([0], [], [], _SILENCE_S)[0]:
            _input.append(os.read(0, 1 << 20))
            is_open = bool(_input[-1])
    except OSError:
        return b""
    return b"".join(_input)


def hook_event() -> dict[str, object]:
    """Returns the same as an event; an empty one where it is no JSON object."""
    import json

    try:
        event = json.loads(hook_input())
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def answer(arguments: list[str]) -> str | None:
    """Returns the command's whole standard output, or None to leave it to the full command line."""
    words = [word for word in arguments if word != "--json"]
    if words[:1] == ["hook"] and os.environ.get(DISPATCH):
        return ""  # the lab drives this harness and has said all
    if os.environ.get("PERPETUAL_OUTPUT"):
        return None
    as_json = len(words) != len(arguments)
    if words == ["--version"]:
        return _version(as_json)
    if arguments in (["--help"], ["-h"]):
        return _help_text()
    parsed = _parsed(words)
    if parsed is None:
        return None
    from perpetual.brief import DEFAULT_TOKENS, for_agents, render

    status = kept_status()
    if status is None:
        return None
    is_agent = mark(os.environ, _agent_marks()) is not None
    command, event, tokens = parsed
    if event == "user-prompt" and (_owned(status) or any(word in hook_input() for word in (b"auto", b"stop"))):
        return None  # the plugin `loop` heeds it
    if command == "status":
        if status["runs"]["active"] or _has_ad_hoc():
            return None  # how far they are is not kept
        status = for_agents(status) if is_agent else status
        document = status_document(status)
        if as_json:
            return _as_json(document, is_agent)
        shown = status_text(status, for_agent=is_agent)
        if os.isatty(1):
            from perpetual.toolkit.screen import folded

            shown = folded(shown)
        return shown + "\n"
    if command == "hook":
        import json

        return json.dumps(hook_document(event, render(status, DEFAULT_TOKENS))) + "\n"
    text = render(status, tokens)
    return (
        _as_json({"schema": "perpetual.brief/1", **brief_document(text, tokens)}, is_agent) if as_json else text + "\n"
    )


def _owned(status: LabStatus) -> bool:
    """Returns whether a session of a coding agent owns the loop; the daemon's turns have no number."""
    section = status.get("sections", {}).get("loop")
    return section is not None and section["data"].get("rounds_left") is not None


def _as_json(document: Mapping[str, object], is_agent: bool) -> str:
    import json

    if is_agent:
        from perpetual.toolkit.untrusted import seal

        document = seal(document)
    return json.dumps(document, ensure_ascii=False) + "\n"


def _version(as_json: bool) -> str:
    from perpetual import __version__

    if as_json:
        return f'{{"schema": "perpetual.version/1", "version": "{__version__}"}}\n'
    return f"perpetual {__version__}\n"


def _parsed(words: list[str]) -> tuple[str, str, int] | None:
    """Returns command, event of a hook and tokens of a plain command line; None for any other, or a wrong one.

    By hand: what argparse imports costs a sixth of an instant command, and click parses what is not as plain.
    """
    from perpetual.brief import DEFAULT_TOKENS

    if words in (["status"], ["brief"]):
        return words[0], "", DEFAULT_TOKENS
    if len(words) == 2 and words[0] == "hook" and words[1] in HOOKS:
        return "hook", words[1], DEFAULT_TOKENS
    if len(words) == 3 and words[:2] == ["brief", "--tokens"]:
        number = words[2]
        if number.isascii() and number.isdecimal() and len(number) < 10 and int(number) > 0:
            return "brief", "", int(number)
    return None


# --- what is kept ---------------------------------------------------------------------------------------------


def kept_status() -> LabStatus | None:
    """Returns the kept status document of the project, if it is of the store's present state."""
    found = cache_files.folder()
    config = cache_files.config_of(found) if found else None
    if found is None or config is None or any(map(os.environ.get, ("PERPETUAL_TRACE_HOOKS", "PERPETUAL_TRUSTED"))):
        return None
    reader = _head(cache_files.plugins_of(config, False), config.get("store"))
    if reader is None:
        return None
    module, _, name = reader.partition(":")
    from perpetual.toolkit.status_file import has_stopped, read_status, token_of

    try:
        head = getattr(__import__(module, fromlist=[name]), name)(os.path.join(found, "store"))
        document = read_status(found, token_of(found, head))
        if document is None or any(has_stopped(found, run["id"]) for run in document["runs"]["active"]):
            return None  # the full command looks how they ended
        return {**document, "services": _services(found)}
    except OSError:
        return None  # the full command line says what is wrong


def _has_ad_hoc() -> bool:
    """Returns whether ad-hoc runs are not in the record yet."""
    try:
        return bool(os.listdir(os.path.join(cache_files.folder() or "", "adhoc")))
    except OSError:
        return False  # there is no such folder


def _services(found: str) -> list[ServiceNow]:
    """Returns the services that ran here; whether one still does is asked of the operating system."""
    if not os.path.isdir(os.path.join(found, "services")):
        return []
    from perpetual.toolkit.service_state import service_states

    return service_states(found)


def _head(plugins: list[dict[str, Any]] | None, store: object) -> str | None:
    """Returns the head function of the one provider that the configuration's `store` names."""
    found = [
        offer["provider"]["head"]
        for info in plugins or []
        for offer in info["offers"]
        if offer["provider"]["slot"] == "store"
        and store in (known_name("store", offer["qualified_name"]), offer["qualified_name"])
    ]
    return found[0] if len(found) == 1 else None


def _agent_marks() -> list[str]:
    """Returns the `agent_marks` of the project's configuration file.

    `status` has answered, so no other place has a say.
    """
    found = cache_files.folder()
    marks = (cache_files.config_of(found) or {}).get("agent_marks") if found else None
    return [name for name in marks if isinstance(name, str)] if isinstance(marks, list) else []


def _help_text() -> str | None:
    """Returns the text of `perpetual --help` for this terminal, if the one that was kept would be written again."""
    key = _help_key()
    text = caches.load("help", key) if key is not None else None
    return text if isinstance(text, str) else None


def keep_help(text: str, sources: list[str]) -> None:
    """Keeps the text of `perpetual --help`; a change of a source file, a plugin or the terminal's width ends it."""
    key = _help_key()
    if key is not None and caches.load("help", key) != text:
        caches.save("help", key, text, sources)


def _help_key() -> str | None:
    """Returns all that the text depends on, but for the program's own files.

    None where a plugin is to be looked up first.
    """
    offered = cache_files.commands()
    if offered is None:
        return None
    from shutil import get_terminal_size

    language = [os.environ.get(name) for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")]
    return repr((caches.plugins_key(), get_terminal_size().columns, language, sorted(offered.items())))


# --- texts ----------------------------------------------------------------------------------------------------


def _plain(text: object) -> str:
    """Returns User text on one line, its control characters made visible."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))


def _spent(budget: Totals) -> str:
    """Returns GPU-hours spent, and reserved if any are, and run time, each against its limit."""
    limit, most, used = budget["limit_gpu_hours"], budget["limit_run_hours"], budget["run_hours"]
    of = "" if limit is None else f" of {limit:g}"
    held = f", {budget['reserved_gpu_hours']:.3g} reserved" if budget["reserved_gpu_hours"] else ""
    none = " (unlimited)" if limit is None and most is None else ""
    time = f"{_hours(used)} of run time" if most is None else f"{used:.3g} of {most:g} run-hours"
    return f"{budget['spent_gpu_hours']:.3g}{of} GPU-hours spent{held}{none}, {time}"


def _hours(hours: float) -> str:
    """Does what `perpetual.toolkit.units.shown_hours` does, whose import this path cannot afford."""
    if hours < 120 / 3600:
        return f"{hours * 3600:.1f} s"
    return f"{hours * 60:.1f} min" if hours < 2 else f"{hours:.2f} h"


def _held_lines(trust: TrustNow | None) -> list[str]:
    """Returns what of the project does not count here, if anything."""
    if trust is None or (trust["state"] != "held" and not trust["held"]):
        return []
    head = f"held: {trust['why']}; it can be read" if trust["state"] == "held" else "held, so it does not count here:"
    more = trust["held_total"] - len(trust["held"])
    items = [f"  {item['kind']} {_plain(item['subject'])}: {item['why']}" for item in trust["held"]]
    return [head, *items, *([f"  and {more} more"] if more else [])]


def status_text(status: LabStatus, *, for_agent: bool = False) -> str:
    """Returns `perpetual status` as text; for an agent the lab's own lines come first, then fenced foreign text."""
    name = [_plain(status["project"])]
    held = _held_lines(status.get("trust"))
    head = [
        *(held[:1] if for_agent else held),
        f"budget: {_spent(status['budget'])}",
        "experiments: " + (", ".join(f"{n} {name}" for name, n in status["experiments"].items()) or "none"),
    ]
    if status["memory"]:
        head.append("memory: " + ", ".join(f"{n} {name}" for name, n in status["memory"].items()))
    if status["queue"] != "running":
        head.append(f"queue: {status['queue']}")
    lines = held[1:] if for_agent else []
    if status["hypotheses"]:
        lines.append("hypotheses:")
        lines += [
            f"  {item['id']:<5} {item['status']:<9} {item['confidence']:.3f}  {_plain(item['statement'])}"
            + ("  (stale)" if item.get("stale") else "")
            + (f"\n        {_plain(said.partition('; a ')[0])}" if (said := item.get("sentence")) else "")
            for item in status["hypotheses"]
        ]
        if left := status["hypotheses_total"] - len(status["hypotheses"]):
            lines.append(f"  and {left} more: perpetual hypotheses list")
        if (family := status.get("family")) and family["tested"]:
            lines.append(f"  together: {family['sentence']}")
    runs = status["runs"]
    if runs["active"] or runs["queued"]:
        live = sum(run["status"] in ("launching", "running") for run in runs["active"])
        lines.append(f"runs: {live} live, {runs['queued']} queued as of the last scan")
        lines += [
            f"  {run['id']:<5} {run['status']:<9} of {run['experiment_id']}  {_plain(run['reason'] or '')}".rstrip()
            + (f"\n        {_plain(now['text'])}" if (now := run.get("progress")) else "")
            for run in runs["active"]
        ]
    for item in status.get("services", ()):
        if item["state"] != "stopped":
            health = item["health"]
            why = item["reason"] or (health["detail"] if health and health.get("ok") is False else "")
            lines.append(f"service {_plain(item['name'])}: {item['state']}" + (f": {_plain(why)}" if why else ""))
    for title, section in status.get("sections", {}).items():
        words = section["lines"] if section["error"] is None else [f"failed: {section['error']}"]
        lines.append(f"{_plain(section['title'] or title)}:")
        lines += [f"  {_plain(line)}" for line in words]
    if not for_agent and status["brief"].get("proposed"):
        lines.append("waiting for approval:")
        for proposed in status["brief"]["proposed"]:
            command = f": {_plain(proposed['command'])}" if proposed["command"] else ""
            lines.append(f"  {proposed['id']:<5} {_plain(proposed['title'])}{command}")
    steps = ["next:", *(f"  {step}" for step in status["next"])] if status["next"] else []
    if for_agent:
        from perpetual.toolkit.fence import fence

        return "\n".join([*head, *steps, fence("\n".join(name + lines))])
    return "\n".join([*name, *head, *lines, *steps])
