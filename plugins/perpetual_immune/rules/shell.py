"""Shell lines as data: quoting, pipes, wrappers and nested commands.  Imported by `commands`; standard library only.

No shell is run.  A line becomes `Command` records with the wrapper programs (sudo, env, xargs, bash -c, ...) taken off,
so that the judge in `commands` sees the program that would do the work, whoever starts it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_NESTING = 4
MAX_LINE_CHARS = 4000
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
INTERPRETERS = frozenset(
    {"python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "osascript", "deno", "bun"}
)
_PLAIN_WRAPPERS = frozenset(
    [
        "sudo",
        "doas",
        "env",
        "nohup",
        "time",
        "nice",
        "ionice",
        "setsid",
        "stdbuf",
        "busybox",
        "toybox",
        "command",
        "builtin",
        "exec",
        "then",
        "do",
        "else",
        "if",
        "while",
        "until",
        "!",
        "{",
        "(",
        "unbuffer",
        "chroot",
        "firejail",
        "caffeinate",
        "watch",
        "timeout",
        "strace",
    ]
)
_OPTION_WITH_VALUE = {
    "sudo": {"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U"},
    "env": {"-u", "-C", "-S"},
    "nice": {"-n"},
    "ionice": {"-c", "-n", "-p"},
    "timeout": {"-s", "-k"},
    "watch": {"-n"},
    "xargs": {"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"},
    "parallel": {"-j", "--jobs", "-I", "--results", "-a", "-N", "-n", "--joblog", "--delay", "--timeout"},
    "ssh": {"-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-W"},
}
_STARTERS = frozenset(
    {"systemd-run", "srun", "docker", "podman", "kubectl", "tmux", "screen", "runuser", "nsenter", "at"}
)
"""Programs that may start a shell given as `sh -c ...` among their arguments."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,99}\+?=")
_SUBSTITUTION = re.compile(
    r"\$\(([^()`]{1,2000})\)|`([^`]{1,2000})`|[<>]\(([^()`]{1,2000})\)|(?<!\$)\(([^()`]{1,2000})\)"
)
_SEPARATORS = frozenset({";", "&&", "||", "&", "|", "|&", "(", ")", ";;", "\n"})


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its program's base name, its arguments, what feeds it and where its output goes."""

    program: str
    args: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    source: Command | None = None
    """The command whose output is piped into this one."""
    targets: tuple[str, ...] = ()
    """Redirection targets, `>` and `>>` alike."""
    inputs: tuple[str, ...] = ()
    fed: bool = False
    """True when arguments come from elsewhere (xargs, parallel), so their values are unknown."""
    after: str = ""
    """The program of the command before this one on the same line."""

    def flags(self) -> str:
        """Returns the letters of all short options, together."""
        letters = []
        for arg in self.args:
            if arg == "--":
                break
            if re.fullmatch(r"-[A-Za-z]+", arg):
                letters.append(arg[1:])
        return "".join(letters)

    def has(self, *options: str) -> bool:
        """Returns whether one of the long options is given, with or without a value, before a lone `--`."""
        for arg in self.args:
            if arg == "--":
                return False
            if arg.split("=", 1)[0] in options:
                return True
        return False

    def operands(self) -> tuple[str, ...]:
        """Arguments that are not options."""
        found: list[str] = []
        rest = False
        for arg in self.args:
            if arg == "--" and not rest:
                rest = True
            elif rest or not (arg.startswith("-") and len(arg) > 1):
                found.append(arg)
        return tuple(found)


def split_words(line: str) -> list[str]:
    """Returns the words and operators of a line; an unclosed quote is read as if it were not there."""
    try:
        return _shlex_words(line)
    except ValueError:
        return _shlex_words(re.sub(r"[\"'\\]", " ", line))


def _shlex_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def base_name(word: str) -> str:
    r"""Returns a program's bare name: `/usr/bin/rm`, `\rm` and `rm.exe` are all `rm`."""
    return re.sub(r"\.exe$", "", word.lstrip("\\").replace("\\", "/").rsplit("/", 1)[-1], flags=re.I)


def _skip_options(words: list[str], program: str) -> int:
    """Returns the index of the first word after a wrapper's own options."""
    takes_value = _OPTION_WITH_VALUE.get(program, set())
    index = 1
    while index < len(words):
        word = words[index]
        if word == "--":
            return index + 1
        if word in takes_value:
            index += 2
        elif (word.startswith("-") and len(word) > 1) or (program in ("env", "sudo") and _ASSIGNMENT.match(word)):
            index += 1
        else:
            break
    if program == "timeout" and index < len(words):
        index += 1
    return index


def commands(line: str, depth: int = 0) -> Iterator[Command]:
    """Yields every simple command of `line`, nested ones included (substitutions, `-c`, xargs, find -exec)."""
    if depth > MAX_NESTING or not line.strip():
        return
    line = line[:MAX_LINE_CHARS].replace("\\\n", " ")
    for match in _SUBSTITUTION.finditer(line):
        inner = next(group for group in match.groups() if group is not None)
        yield from commands(inner, depth + 1)
    words = split_words(line)
    start = 0
    source: Command | None = None
    previous = ""
    for index in range(len(words) + 1):
        if index < len(words) and words[index] not in _SEPARATORS and words[index].strip(";|&()") != "":
            continue
        made = _simple(words[start:index], source, previous)
        operator = words[index] if index < len(words) else ""
        start = index + 1
        source = None
        if made is not None:
            yield from _unwrap(made, depth)
            previous = made.program
            source = made if operator.startswith("|") and operator != "||" else None


def _simple(words: list[str], source: Command | None, previous: str) -> Command | None:
    targets: list[str] = []
    inputs: list[str] = []
    assignments: list[str] = []
    kept: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word and set(word) <= {"<", ">", "&", "|"} and set(word) & {"<", ">"}:
            if kept and kept[-1].isdigit():
                kept.pop()
            if index + 1 < len(words):
                (targets if ">" in word else inputs).append(words[index + 1])
            index += 2
            continue
        if not kept and _ASSIGNMENT.match(word):
            assignments.append(word)
        else:
            kept.append(word)
        index += 1
    while kept and base_name(kept[0]) in _PLAIN_WRAPPERS:
        skip = _skip_options(kept, base_name(kept[0]))
        if skip >= len(kept):
            break
        kept = kept[skip:]
        while kept and _ASSIGNMENT.match(kept[0]):
            assignments.append(kept.pop(0))
    if not kept:
        return (
            Command("", (), tuple(assignments), source, tuple(targets), tuple(inputs))
            if targets or assignments
            else None
        )
    return Command(
        base_name(kept[0]),
        tuple(kept[1:]),
        tuple(assignments),
        source,
        tuple(targets),
        tuple(inputs),
        after=previous,
    )


def _unwrap(command: Command, depth: int) -> Iterator[Command]:
    """Yields `command` itself, then the commands it would start."""
    yield command
    if depth >= MAX_NESTING:
        return
    program, args = command.program, list(command.args)
    if program in SHELLS or program == "su":
        for flag, value in pairwise(args):
            if re.fullmatch(r"-[a-z]*c", flag):
                yield from commands(value, depth + 1)
    elif program == "eval":
        yield from commands(" ".join(args), depth + 1)
    elif program == "ssh":
        words = ["ssh", *args]
        rest = words[_skip_options(words, "ssh") + 1 :]
        yield from commands(" ".join(rest), depth + 1)
    elif program in _STARTERS:
        for (shell, flag), value in zip(pairwise(args), args[2:], strict=False):
            if base_name(shell) in SHELLS and re.fullmatch(r"-[a-z]*c", flag):
                yield from commands(value, depth + 1)
    elif program == "xargs":
        words = ["xargs", *args]
        yield from _fed(words[_skip_options(words, "xargs") :], command, (), depth)
    elif program == "parallel":
        words = ["parallel", *args]
        rest = words[_skip_options(words, "parallel") :]
        values: tuple[str, ...] = ()
        if ":::" in rest:
            values = tuple(rest[rest.index(":::") + 1 :])
            rest = rest[: rest.index(":::")]
        yield from _fed(rest, command, values, depth)
    elif program == "find":
        for index, word in enumerate(args):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                tail = [w for w in args[index + 1 :] if w not in (";", "+", "\\;")]
                made = _simple(tail, None, "find")
                if made is not None:
                    yield from _unwrap(
                        Command(made.program, made.args, made.assignments, None, (), (), True, "find"),
                        depth + 1,
                    )


def _fed(words: list[str], command: Command, values: tuple[str, ...], depth: int) -> Iterator[Command]:
    """Yields what xargs or parallel starts: `words` with `values` appended or put in place of `{}`."""
    if not values and command.source is not None and command.source.program in ("echo", "printf"):
        values = tuple(arg for arg in command.source.args if arg not in ("-n", "-e"))
    if not words:
        for value in values:
            yield from commands(value, depth + 1)
        return
    filled = [w for word in words for w in (values if word == "{}" and values else (word,))]
    joined = [word.replace("{}", " ".join(values)) if values else word for word in filled]
    if "{}" not in " ".join(words) and not _ends_in_shell(words):
        joined = [*words, *values]
    made = _simple(joined, None, "")
    if made is not None:
        yield from _unwrap(
            Command(made.program, made.args, made.assignments, None, (), (), not values, command.program),
            depth + 1,
        )
    if _ends_in_shell(words):
        for value in values:
            yield from commands(value, depth + 1)


def _ends_in_shell(words: list[str]) -> bool:
    return base_name(words[0]) in SHELLS and words[-1] in ("-c", "{}", words[0])
