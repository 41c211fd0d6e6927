"""Commands a memory must not carry, and where in a text they stand.  Imported by `scanner`; standard library only.

`verdicts` says how bad a command is.  Where it stands decides the rest: a note that is nothing but the command is an
order, a fenced block or a prompt line is a command to run, a command in running prose is a mention unless the words
before it tell the reader to run it.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from perpetual_immune.rules.context import bounded, defended, described, own_setting, told_to_run, warned
from perpetual_immune.rules.hit import STRONG, Hit, fold, negated, reported
from perpetual_immune.rules.said import only_what_is_said
from perpetual_immune.rules.shell import base_name
from perpetual_immune.rules.sieve import Sieves
from perpetual_immune.rules.verdicts import PROGRAMS as JUDGED
from perpetual_immune.rules.verdicts import judge_line
from perpetual_redaction.vocabulary import words_of

_OTHER_PROGRAMS = (
    "echo printf ls cd pwd python python3 bash sh zsh xargs parallel ssh busybox sudo doas env eval exec mkdir touch source export tar zip base64 gpg "
    "mysqldump pg_dump pg_dumpall mongodump make npm node perl ruby php apt apt-get yum dnf brew mkfs wipefs shred kill killall pkill mv tee history unset shutdown reboot halt su nohup "
    "timeout watch openssl socat mkfifo awk printenv set powershell cmd reg wmic command builtin nslookup dig hostname whoami id uname trap while for if "
    "mkfs.ext4 insmod truncate fdisk systemctl xmrig hydra sqlmap msfvenom time nice setsid env"
)
PROGRAMS = JUDGED | frozenset(_OTHER_PROGRAMS.split())
_PROSE_WORDS = re.compile(
    r"\b(?:the|is|are|was|were|this|that|which|of|should|will|you|we|it|an|our|your|not|has|have|tears|deletes|removes|discards|overwrites|rewrites|throws|destroys|without|never|only|whole)\b",
    re.I,
)
_QUOTED_FIRST = re.compile(r"`[^`\n]{1,200}`[,;:.]? {1,2}[A-Za-z(]")
"""Prose that begins with inline code."""
_PROMPT = re.compile(r"^\s{0,8}(?:\$|%|>|❯|➜|#|PS [^>]{0,60}>|[\w.-]+@[\w.-]+[:~][^$#]{0,60}[$#])\s+(?=\S)")
_SHELL_FENCES = frozenset(("", "bash", "sh", "shell", "console", "zsh", "terminal", "shell-session", "text"))
_MOST_LINES_ALONE = 12  # a longer text is no mere command, whatever its lines look like
_SCRIPT_LINES = 4  # from here on a text is a script, whose lines are weighed as they are
_LONGEST_COMMAND = 400  # characters of a line without a prompt
_FENCE = re.compile(r"(?ms)^[ \t]*(?:```|~~~)[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)")
_FIELD = re.compile(
    r"[\"'](?:command|cmd|script|shell|bash|exec|run|code)[\"']\s{0,3}:\s{0,3}\"((?:[^\"\\\n]|\\.){3,800})\"",
    re.I,
)
_CALL = re.compile(
    r"\b(?:os\.(?:system|popen)|subprocess\.(?:run|call|Popen|check_call|check_output|getoutput)|exec(?:Sync)?|system|shell_exec|passthru|popen)\(\s{0,4}[fr]?([\"'])((?:(?!\1)[^\\\n]|\\.){3,600})\1",
    re.I,
)
_CALL_LIST = re.compile(r"\b(?:subprocess\.\w+|Popen|spawn|execFile)\(\s{0,4}\[([^\]\n]{3,400})\]")
_INLINE = re.compile(r"`([^`\n]{3,400})`")
_EMBEDDED = re.compile(
    r"(?<![\w./'\"`-])(?:sudo\s+)?(?:rm\s+-|dd\s+if=|mkfs|curl\s|wget\s|nc\s+-|ncat\s|git\s+(?:push|reset|clean|checkout|restore|stash|branch)\s|chmod\s|chown\s+-R|"
    r"bash\s+-[ic]|sh\s+-[ic]|crontab\s|mongosh?\s|redis-cli\s|scancel\s|pkill\s|killall\s|userdel\s|truncate\s|systemd-run\s|cat\s+[~/.]|scp\s|shred\s|find\s+[/~.]|echo\s|printf\s|kubectl\s|terraform\s|aws\s|docker\s+run|useradd\s|iptables\s|ufw\s|"
    r"systemctl\s|history\s+-|pip3?\s+install|npm\s+install|env\s*\||printenv\s*\||tar\s|cp\s|mv\s|base64\s|ssh\s|tee\s|dropdb\s|gcloud\s|python3?\s+-c)[^\n`]{2,400}"
)
_SIGNS: dict[re.Pattern[str], str] = {
    _FIELD: r"(?i)[\"'](?:command|cmd|script|shell|bash|exec|run|code)[\"']\s{0,3}:",
    _CALL: r"(?i)\b(?:system|popen|run|call|check_call|check_output|getoutput|exec|execsync|shell_exec|passthru)\(\s{0,4}[fr]?[\"']",
    _CALL_LIST: r"\(\s{0,4}\[",
    _EMBEDDED: _EMBEDDED.pattern[len(r"(?<![\w./'\"`-])(?:sudo\s+)?") : -len(r"[^\n`]{2,400}")],
}
"""Of each pattern, what a text must hold for it to match."""
_SIEVES = Sieves(tuple(_SIGNS.values()))
_PATTERNS = tuple(_SIGNS)


def _held(text: str) -> frozenset[re.Pattern[str]]:
    found = _SIEVES.matching(text)
    return frozenset(_PATTERNS if found is None else (_PATTERNS[number] for number in found))


_ORDER = re.compile(
    r"(?:\b(?:run|execute|exec|type|enter|use|paste|invoke|issue|perform|call|launch|start|do|via|with|by|command|then|always|must|please|first|now|just|need to|bash|shell"
    r"|terminal|step \d)\b[\w ,]{0,30}[:\s\"'(`]{1,6})$",
    re.I,
)


_LED_BY_COLON = re.compile(r"(?:\w[:)] {1,2}|(?:&&|;) ?)(?:sudo )?[`\"']?$")
"""Words and a colon before a command, which say what it is good for."""
_STAYS = frozenset({"exfiltration", "remote-code", "remote-control", "persistence", "supply-chain"})
"""Families that a description alone does not excuse: what they do does not show in what they print."""
_NEVER_PROSE = frozenset({"exfiltration", "remote-control"})
"""Families whose gravest commands no honest sentence carries but in a quotation."""
_BARE_ADDRESS = re.compile(r"http://\d{1,3}(?:\.\d{1,3}){3}\b")
_ORDERED, _MENTIONED, _REPORTED = -0.25, -1.0, -1.5
_LEAST = 2.0
_OWN_GROUP = re.compile(r"usermod -aG (?:docker|dialout|video|render|plugdev) [\"']?\$\{?USER\b")
_CRON_PROSE = re.compile(r"\bcrontab (?:entr\w+|lines?|files?|for|of|is|has|on|in) ")
_SETTING_RULES = frozenset({"startup-file", "credential-file", "exfiltrate-pipe"})
_STARTUP_WRITE = re.compile(r"(?:'cat |\"cat )?>> ?~/\.")
_SWEEPING = re.compile(r" (?:--all|--all-namespaces|-A)\b")
_PLACEHOLDER = re.compile(r"/dev/(?:sd[xX]|nvmeXn|diskN|your)|<[a-z][\w -]{1,30}>")
_HOUSE = r"(?:~|\$\{?HOME\}?)/\.(?:cache|conda/pkgs|npm|cargo/registry|gradle/caches|triton|nv|keras|m2/repository|local/share/Trash)(?:/[\w.*-]{1,40}){0,4}/?"
_CACHES = re.compile(rf"\brm (?:-\w+ ){{1,3}}{_HOUSE}(?: {_HOUSE}){{0,6}}\s*(?:$|[#;&|])")
_ORDINARY: dict[str, re.Pattern[str]] = {
    "git-discard": re.compile(
        r"\bbranch (?:-D|--delete --force) (?!(?:main|master|prod|release|develop)\b)[\w./-]{1,60}$"
    ),
    "container-wipe": re.compile(r"\bcompose down (?:--?\w+ )*-v\b.{0,40}\bcompose up\b"),
    "resource-delete": re.compile(r"\bdestroy -target=|\bdrain \S+ .{0,120}--ignore-daemonsets|-n \d+ FLUSHDB"),
    "cluster-destroy": re.compile(r"\bdrain \S+ .{0,120}--ignore-daemonsets"),
    "database-wipe": re.compile(r"-n \d+ FLUSHDB"),
    "recursive-delete-fed": re.compile(
        r"-name ['\"]?(?:__pycache__|node_modules|\.ipynb_checkpoints|\*\.egg-info|\.(?:pytest|mypy|ruff)_cache|\.DS_Store)\b"
    ),
    "scheduled-job": re.compile(
        r"(?i)\bschtasks /create (?!.{0,200}(?:http|powershell|system|temp|appdata|public)).{1,200}/sc (?:daily|weekly|monthly)"
    ),
}
"""Forms of a grave command that are daily work: a merged branch, a test's database, one part of many, rubbish."""
_DRY_RUN = re.compile(r" --dry-?run\b")
_QUOTED_AWAY = 3.0
_AROUND_CHARS = 200


def _is_defended(text: str, start: int, end: int) -> bool:
    first = max(0, start - _AROUND_CHARS)
    return defended(fold(text[first : end + _AROUND_CHARS]), start - first, end - first)


def _standing(text: str, start: int, end: int) -> float:
    """Returns the weight to add for a command in prose at `[start, end)`: little off if ordered, more if mentioned."""
    if negated(text, start) or _is_defended(text, start, end):
        return -3.0
    before = text[max(0, start - 60) : start]
    lowered = -1.5 if described(text, start, end) else 0.0
    lowered -= 1.0 if warned(text, start, end) else 0.0
    if _ORDER.search(before) or (not lowered and (_LED_BY_COLON.search(before) or told_to_run(text, end))):
        return lowered + _ORDERED
    return lowered + (_REPORTED if reported(text, start, end) else _MENTIONED)


def _is_command_line(line: str) -> bool:
    words = line.split(None, 3)
    if not words or _QUOTED_FIRST.match(line):
        return False
    first = words[0].lstrip("(`$\\") if words[0] != "$" else (words[1] if len(words) > 1 else "")
    while "=" in first and re.match(r"[A-Za-z_]\w*=", first) and len(words) > 1:
        words = words[1:]
        first = words[0]
    name = base_name(first)
    if name not in PROGRAMS and not name.startswith("mkfs"):
        return False
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    return len(_PROSE_WORDS.findall(unquoted)) < 2


def _as_hits(line: str, start: int, end: int, added: float) -> Iterator[Hit]:
    for rule, family, weight in judge_line(line):
        total = weight + added
        if family == "destruction" and added < 1.0 and weight < STRONG and bounded(line):
            total -= 1.0
        if rule == "untrusted-index" and _BARE_ADDRESS.search(line):
            total += 1.0
        if family in _NEVER_PROSE and weight >= STRONG and added == _MENTIONED:
            total = weight + _ORDERED
        if rule == "new-account" and _OWN_GROUP.search(line):
            total -= 1.0
        if rule == "scheduled-job" and _CRON_PROSE.search(line):
            continue
        if rule in _SETTING_RULES and (mark := _STARTUP_WRITE.search(line)) and own_setting(fold(line), mark.start()):
            continue
        if (family == "destruction" and _SWEEPING.search(line)) or (rule == "remote-branch-delete" and "$(" in line):
            total += 0.75
        if _PLACEHOLDER.search(line) or (rule == "new-account" and added < 0 and "usermod" in line):
            total -= 1.0
        if rule == "recursive-delete" and _CACHES.search(line):
            total -= 1.5
        if rule in _ORDINARY and _ORDINARY[rule].search(line):
            total -= 1.5
        if family == "destruction" and _DRY_RUN.search(line):
            continue
        if family in _STAYS and weight >= STRONG and -_QUOTED_AWAY < added < -1.0:
            total = max(total, _LEAST)
        if total > 0:
            yield Hit(rule, family, total, start, end)


_TRIGGER_WORDS = JUDGED | frozenset(
    re.findall(
        r"\S+",
        "adduser aws az base64 bash blkdiscard cat chmod chown chpasswd cp cpuminer crontab curl dd dig docker dropdb echo env export fdisk find "
        "gcloud gh git gpg grep gsutil halt hashcat head helm history hydra init insmod iptables john kexec kill killall kubectl less ln lynx "
        "mimikatz minerd mkfs msfconsole msfvenom mv nano nc ncat net netcat nft node npm openssl parted passwd perl php pip pip3 pkill poweroff "
        "printenv printf python python3 reboot redis-cli rm rsync ruby schtasks scp service setenforce sgdisk sh shred shutdown socat sqlmap srm ssh "
        "strings sysctl systemctl tail tar tee telnet terraform truncate ufw unlink unset useradd usermod vi vim wget wipefs xmrig yarn zip zsh ",
    )
)
_TRIGGER_RUNS = frozenset(run for word in _TRIGGER_WORDS for run in re.findall(r"[a-z]+", word.lower()))
_TRIGGER_SIGN = re.compile(r"/dev/(?:tcp|udp|sd|nvme|hd)|>>?\s{0,3}[~/.]|\bmkfs")
_TOKEN = re.compile(r"[\w.-]+")


def _triggered(text: str) -> bool:
    """Returns whether the text names a program or holds a sign of a shell's line."""
    if not (_TRIGGER_RUNS.isdisjoint(words_of(fold(text))) or _TRIGGER_WORDS.isdisjoint(_TOKEN.findall(text))):
        return True
    signs = "/dev/" in text or ">" in text or "mkfs" in text
    return signs and _TRIGGER_SIGN.search(text) is not None


@only_what_is_said
def find(text: str) -> Iterator[Hit]:
    """Commands of `text` that should not be kept, each weighted by what it does and by where it stands."""
    if not _triggered(text):
        return
    held = _held(text)
    lines = [line for line in text.strip().splitlines() if line.strip() and not line.lstrip().startswith(("#", "```"))]
    if lines and len(lines) <= _MOST_LINES_ALONE and all(_is_command_line(_PROMPT.sub("", line)) for line in lines):
        added = 1.0 if len(lines) < _SCRIPT_LINES else 0.0
        for match in re.finditer(r"[^\n]+", text):
            yield from _as_hits(_PROMPT.sub("", match.group(0)).strip("` "), match.start(), match.end(), added)
        return
    fences = [*_FENCE.finditer(text)] if "```" in text or "~~~" in text else []
    fenced = _Spans(fences)
    quoted = [
        match
        for match in (_INLINE.finditer(text) if text.count("`") > 1 else ())
        if _is_command_line(match.group(1)) and match.start() not in fenced
    ]
    inline = _Spans(quoted)
    yield from _in_fences(fences)
    yield from _in_code(text, held)
    for match in quoted:
        yield from _as_hits(match.group(1), match.start(), match.end(), _standing(text, match.start(), match.end()))
    embedded = _EMBEDDED in held
    yield from _on_lines(text, lambda at: at in fenced or at in inline, alone=len(lines) <= 1, embedded=embedded)


def _in_fences(fences: Iterable[re.Match[str]]) -> Iterator[Hit]:
    """Yields the hits in fenced blocks of a shell, or of no named language: commands to run."""
    for match in fences:
        if match.group(1).lower() not in _SHELL_FENCES:
            continue
        for row in re.finditer(r"[^\n]+", match.group(2)):
            line = _PROMPT.sub("", row.group(0)).strip()
            if _is_command_line(line):
                at = match.start(2) + row.start()
                yield from _as_hits(line, at, at + len(row.group(0)), -0.75 if _own_comment(line) else 0.0)


def _own_comment(line: str) -> bool:
    """Returns whether a comment at the end of a command says what it destroys."""
    _, mark, comment = line.partition(" # ")
    return bool(mark) and described(comment, 0, 0)


def _in_code(text: str, held: frozenset[re.Pattern[str]]) -> Iterator[Hit]:
    """Commands that a field of a tool call or a call in a program carries."""
    for match in _FIELD.finditer(text) if _FIELD in held else ():
        yield from _as_hits(match.group(1).replace('\\"', '"'), match.start(), match.end(), 1.0)
    for match in _CALL.finditer(text) if _CALL in held else ():
        yield from _as_hits(match.group(2), match.start(), match.end(), 0.5)
    for match in _CALL_LIST.finditer(text) if _CALL_LIST in held else ():
        yield from _as_hits(re.sub(r"[\"',]+", " ", match.group(1)), match.start(), match.end(), 0.5)


def _on_lines(text: str, is_covered: Callable[[int], bool], *, alone: bool, embedded: bool) -> Iterator[Hit]:
    """Lines that are commands, and commands in the midst of a line; `alone` is the text's only line."""
    position = 0
    for text_line in text.splitlines(keepends=True):
        start, position = position, position + len(text_line)
        if is_covered(start):
            continue
        prompted = _PROMPT.match(text_line)
        line = text_line[prompted.end() :] if prompted else text_line
        if (prompted and _is_command_line(line)) or (_is_command_line(line.strip()) and len(line) < _LONGEST_COMMAND):
            end = start + len(text_line.rstrip())
            yield from _as_hits(line.strip(), start, end, 1.0 if alone and not prompted else 0.0)
            continue
        for match in _EMBEDDED.finditer(text_line) if embedded else ():
            at = start + match.start()
            if not is_covered(at):
                line = re.split(r"(?<=[\w/~*])[.!?](?:\s|$)", match.group(0), maxsplit=1)[0]
                standing = _standing(text, at, at + len(line))
                yield from _as_hits(
                    line,
                    at,
                    at + len(line),
                    standing if text_line[: match.start()].strip() else _heads(text, at, line, standing),
                )
                break


def _heads(text: str, at: int, line: str, standing: float) -> float:
    """Returns the weight to add for a command that begins a line of prose: to be run, unless it is described."""
    return standing if described(text, at, at + len(line)) or described(line, 0, 0) or standing < -1.0 else -0.25


class _Spans:
    """The spans of matches that do not overlap, in order; whether a position is in one costs no look at the others."""

    def __init__(self, matches: Iterable[re.Match[str]]) -> None:
        spans = [match.span() for match in matches]
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]

    def __contains__(self, position: int) -> bool:
        before = bisect_right(self._starts, position)
        return before > 0 and position < self._ends[before - 1]
