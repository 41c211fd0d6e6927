"""The brief: where the research stands, for an agent, within a number of tokens.

One renderer for `perpetual brief`, the harness hooks, the MCP server's instructions and `live-state://research`. It
reads only the status document, so it is served from the kept one without opening the store; it imports next to nothing,
so the fast path of the command can use it. An agent reads it, so it names no command that is for a person.

What people, agents and programs wrote stands inside one fence (`perpetual.toolkit.fence`), the project's name
included. What the lab itself says, the budget and what to do next, stands above it.
"""

from __future__ import annotations

from perpetual.toolkit.fence import FENCE_BYTES, fence, neutralise
from perpetual.toolkit.readers import agent_steps

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from perpetual.documents.status import HypothesisLine, LabStatus, ResultLine, Totals

__all__ = ["DEFAULT_TOKENS", "for_agents", "next_of", "render", "tokens_of"]

DEFAULT_TOKENS = 800
_HELD = "This project is held: it can be read, and nothing starts until a person accepts it in a terminal."


def for_agents(status: LabStatus) -> LabStatus:
    """Returns a kept status document as an agent reads it: with no step that is for a person."""
    return {**status, "next": next_of(status)}


def next_of(status: LabStatus) -> list[str]:
    """Returns the next steps of a kept status document as an agent reads them."""
    steps: list[str] = status["next"]
    if status["brief"].get("agents_may_approve"):
        return [step for step in steps if not step.startswith("perpetual trust")]  # which is never for an agent
    return agent_steps(steps)


def tokens_of(text: str) -> int:
    """Returns the size of a text in tokens, counted as ceil(UTF-8 bytes / 4)."""
    return -(-len(text.encode("utf-8")) // 4)


def _line(text: object, most: int = 110) -> str:
    """Returns the text on one line as it stands inside the fence, cut to `most` characters."""
    plain = neutralise(" ".join(str(text).split()))
    return plain if len(plain) <= most else (plain[: most - 3].rpartition(" ")[0] or plain[: most - 3]) + "..."


def _bound(item: HypothesisLine) -> str:
    """Returns the false-alarm bound, or by whose hand it was decided without one."""
    bound = item["false_alarm_bound"]
    if bound is None:
        return f"decided by {item.get('decided_by') or 'hand'}, no false-alarm bound"
    return f"false-alarm bound {bound:.2g}"


def _rows(item: HypothesisLine) -> str:
    """Returns how many rows of evidence count, in words."""
    count = item["evidence_count"] if (counting := item.get("counting")) is None else counting
    return f"{count} row{'s' * (count != 1)}"


def _hypothesis(item: HypothesisLine, cautions: dict[str, list[str]]) -> str:
    remarks = "".join(f"; {_line(text, 90)}" for text in cautions.get(item["id"], ())[:2])
    return (
        f"- {item['id']} [{item['status']}] confidence {item['confidence']:.2f} "
        f"({_bound(item)}, {_rows(item)}{remarks}): "
        f"{_line(item['statement'])}{_verdict(item)}"
    )


def _together(status: LabStatus) -> list[str]:
    """Returns the line on all tested claims together, where any is supported."""
    family = status.get("family")
    return [f"- together: {family['sentence']}"] if family and family["supported"] else []


def _verdict(item: HypothesisLine) -> str:
    """Returns the verdict's sentence up to its bound, which stands beside the confidence; empty before any."""
    said = item.get("sentence") or ""
    return f" -> {_line(said.partition('; a ')[0], 110)}" if said else ""


def _result(item: ResultLine) -> str:
    metrics = ", ".join(f"{_line(name, 30)}={value:.5g}" for name, value in item["metrics"].items())
    ending = "; ".join(text for text in (item["reason"], metrics) if text)
    return (
        f"- {item['id']} of {item['experiment_id']} {item['status']}: {_line(item['title'], 60)}: {_line(ending, 80)}"
    )


def _budget(budget: Totals) -> str:
    if budget["limit_gpu_hours"] is None:
        spent, used = budget["spent_gpu_hours"], budget["run_hours"]
        return f"Budget: unlimited GPU-hours; {spent:.2f} spent, {used:.2f} run-hours used."
    return (
        f"Budget: {budget['left_gpu_hours']:.2f} of {budget['limit_gpu_hours']:.2f} GPU-hours left "
        f"({budget['spent_gpu_hours']:.2f} spent, {budget['reserved_gpu_hours']:.2f} reserved)."
    )


# What a line of each part is worth to an agent that has to choose: the first one, and each further one's share of the
# one before. A command to go on with is worth most; the tenth old note is worth little.
_WORTH = {
    "Next:": (100.0, 0.7),
    "Handover:": (90.0, 0.8),
    "Live runs:": (60.0, 0.8),
    "Open hypotheses:": (80.0, 0.9),
    "Supported:": (40.0, 0.85),
    "Last results:": (50.0, 0.75),
    "Dead ends (not again without a new reason):": (70.0, 0.85),
    "Notes (perpetual memory show PATH):": (20.0, 0.8),
    "Plugins:": (30.0, 0.8),
}
_OWN_SECTIONS = 1  # the first parts, which the lab words itself and which stand above the fence
_EXPAND = "Expand an id: perpetual hypotheses show h1, experiments e1, runs r1, memory show PATH."


def _sections(status: LabStatus) -> list[list[str]]:
    """Returns the brief in parts as they are read: the lab's own first, then what others wrote, each with a heading."""
    extra = status["brief"]
    cautions: dict[str, list[str]] = extra.get("cautions", {})  # what is to be known beside a confidence
    opened = [item for item in status["hypotheses"] if item["status"] == "open"]
    supported = [item for item in status["hypotheses"] if item["status"] == "supported"]
    active = status["runs"]["active"]
    runs = [
        f"- {run['id']} of {run['experiment_id']} {run['status']}: {_line(run['reason'] or 'no news', 60)}"
        for run in active
    ]
    if status["runs"]["queued"]:
        runs.append(f"- {status['runs']['queued']} queued")
    notes = [
        f"- {_line(note['path'], 60)} ({note['status']}, {'' if note.get('proven') else 'un'}proven): "
        f"{_line(note['title'], 70)}"
        for note in extra["notes"]
    ]
    said = [*status.get("sections", {}).values()]
    leads = [f"- {_line(line, 200)}" for one in said if one["data"].get("leads") for line in one["lines"]]
    plugins = [(one["title"], line) for one in said if not one["data"].get("leads") for line in one["lines"]]
    return [
        ["Next:", *(f"- {neutralise(step)}" for step in next_of(status))],
        ["Handover:", *leads],
        ["Open hypotheses:", *(_hypothesis(item, cautions) for item in opened)],
        ["Live runs:", *runs],
        ["Supported:", *(_hypothesis(item, cautions) for item in supported), *_together(status)],
        ["Last results:", *map(_result, extra["results"])],
        ["Dead ends (not again without a new reason):", *(_hypothesis(item, cautions) for item in extra["dead_ends"])],
        ["Notes (perpetual memory show PATH):", *notes],
        ["Plugins:", *(f"- {_line(title, 40)}: {_line(line)}" for title, line in plugins)],
    ]


def _bytes(line: str) -> int:
    return len(line.encode("utf-8")) + 1  # with its line end


def _chosen(sections: list[list[str]], room: int, fence_bytes: int) -> list[list[str]]:
    """Returns each part's lines that say most per byte within `room` bytes; an empty list for a part left out.

    A part is shown from its first line on, so each step takes the next line of the part where it is worth most for
    its size, the heading counted with the first, and the fence with the first line inside it; a part whose next line
    does not fit is done.
    """
    taken = [1] * len(sections)  # the heading alone is not shown
    going = [index for index, section in enumerate(sections) if len(section) > 1]
    while going:

        def cost(index: int) -> int:
            heading = _bytes(sections[index][0]) if taken[index] == 1 else 0
            opens = index >= _OWN_SECTIONS and all(count == 1 for count in taken[_OWN_SECTIONS:])
            return heading + _bytes(sections[index][taken[index]]) + (fence_bytes if opens else 0)

        def density(index: int) -> float:
            first, share = _WORTH[sections[index][0]]
            return float(first * share ** (taken[index] - 1)) / cost(index)

        best = max(going, key=density)
        if cost(best) > room:
            going.remove(best)
            continue
        room -= cost(best)
        taken[best] += 1
        if taken[best] == len(sections[best]):
            going.remove(best)
    return [section[:count] if count > 1 else [] for section, count in zip(sections, taken, strict=True)]


def render(status: LabStatus, tokens: int = DEFAULT_TOKENS) -> str:
    """Returns the brief of a status document in at most `tokens` tokens: what is worth most for its size.

    Text of others is shown inside a fence with both of its lines, or not at all. The last line counts what was left
    out.
    """
    head = [f"# The state of the research (event {status['seq']})", _budget(status["budget"])]
    if status.get("trust", {}).get("state") == "held":
        head.insert(1, _HELD)
    while head and tokens_of("\n".join(head)) > tokens:
        head.pop()
    name = _line(status["project"] or "", 60)
    sections = _sections(status)
    total = sum(len(section) - 1 for section in sections)
    room = 4 * tokens - sum(map(_bytes, head)) + 1  # the last line has no line end
    inside = FENCE_BYTES + (_bytes(f"Project: {name}") if name else 0)
    shown = _chosen(sections, room, inside)
    if _count(shown) < total:
        left_out = f"({total} more lines left out)"
        shown = _chosen(sections, room - max(_bytes(left_out), _bytes(_EXPAND)) - _bytes(_EXPAND), inside)
    own = [line for section in shown[:_OWN_SECTIONS] for line in section]
    foreign = [line for section in shown[_OWN_SECTIONS:] for line in section]
    if foreign or (name and sum(map(_bytes, [*head, *own])) + inside <= 4 * tokens):
        foreign = ([f"Project: {name}"] if name else []) + foreign
    lines = [*head, *own, *([fence("\n".join(foreign))] if foreign else [])]
    if _count(shown) < total:
        for line in (f"({total - _count(shown)} more lines left out)", _EXPAND):
            if tokens_of("\n".join([*lines, line])) <= tokens:
                lines.append(line)
    return "\n".join(lines)


def _count(sections: list[list[str]]) -> int:
    """Returns how many lines the parts hold without their headings."""
    return sum(max(0, len(section) - 1) for section in sections)
