"""Dangers of a shell line, judged by program, flags and targets.  Imported by `commands`; standard library only.

`shell` parses the line; `_JUDGES` maps a program to a function that says how bad its arguments are.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from perpetual_immune.rules.programs import NAMED_PROGRAMS, by_program
from perpetual_immune.rules.shell import INTERPRETERS, SHELLS, Command, commands

Verdict = tuple[str, str, float]
"""Rule, family and weight."""

_HOME = re.compile(r"^(?:~\w*|\$\{?HOME\}?|/home|/root|/Users|%USERPROFILE%)(?:/.*)?$")
_ROOT = re.compile(r"^(?:/+\*?|/\.\*?|[A-Za-z]:[\\/]*\*?)$")
_SYSTEM = re.compile(
    r"^/(?:etc|usr|var|bin|sbin|lib|lib64|boot|dev|opt|sys|proc|srv|root|home|Users|mnt|System|Library|Applications)(?:/|$)"
)
_TEMPORARY = re.compile(
    r"^(?:/tmp|/var/tmp|/private/tmp|\$\{?TMPDIR\}?|\$\{?\w*(?:tmp|temp|TMP|TEMP)\w*\}?)(?:/(?!.*\.\.).*)?$|^\$\{\w+\("
)
_CREDENTIAL_FILE = re.compile(
    r"/etc/(?:g?shadow|sudoers|security/opasswd)|(?:^|/)\.ssh/(?:id_\w+|authorized_keys|.*key|\*?$)|(?:^|/)id_(?:rsa|ed25519|ecdsa|dsa)$"
    r"|(?:^|/)\.aws/(?:credentials|config)|(?:^|/)\.config/gcloud|(?:^|/)\.azure/|(?:^|/)\.kube/config|(?:^|/)\.docker/config\.json"
    r"|(?:^|/)\.(?:netrc|pgpass|npmrc|pypirc|git-credentials|vault-token|my\.cnf|htpasswd)$|(?:^|[/@=])\.env(?:\.\w+)?$|(?:^|/)\.gnupg|"
    r"(?:^|/)\.(?:bash|zsh|python|mysql|psql)_history$|/proc/(?:self|\d+|\*)/environ|(?:^|/)(?:secrets?|credentials?)(?:\.\w+)?$|/run/secrets/|"
    r"serviceaccount/token|\.pem$|\.kdbx$|wallet\.dat$|Login Data|cookies\.sqlite|(?:^|/)SAM$|ntds\.dit|\.(?:p12|pfx|keytab)$|/etc/passwd$",
    re.I,
)
_STARTUP_FILE = re.compile(
    r"(?:^|/)\.(?:bashrc|bash_profile|zshrc|zshenv|profile|bash_login|xinitrc|vimrc)$|/etc/(?:profile|rc\.local|cron|crontab|ld\.so\.preload|sudoers|passwd"
    r"|shadow|hosts|init\.d|systemd|pam\.d|bash\.bashrc|environment)|\.config/(?:autostart|systemd)|authorized_keys|\.git/hooks/|LaunchAgents|LaunchDaemons"
    r"|sitecustomize\.py|usercustomize\.py|\.pth$|/var/spool/cron",
    re.I,
)
_HOOK_SETTING = re.compile(r"(?:core\.(?:hooksPath|sshCommand|pager|fsmonitor|editor)|alias\.|credential\.)")
_CACHE = re.compile(r"^(?:/var/lib/apt/lists|/var/cache|/root/\.cache|(?:~|\$\{?HOME\}?|/home/\w+)/\.cache)/")
_RUBBISH = re.compile(
    r"(?:\*\.(?:py[co]|tmp|swp|bak|orig|log|cache)|__pycache__|\.DS_Store|\.pytest_cache|\.ipynb_checkpoints)"
)
_DISK = re.compile(r"^/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper/|md\d)")
_NETWORK = frozenset(
    {"curl", "wget", "fetch", "aria2c", "lynx", "http", "https", "nc", "ncat", "lwp-download", "iwr", "irm"}
)
_SENDERS = frozenset(
    {
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "telnet",
        "socat",
        "openssl",
        "mail",
        "mailx",
        "sendmail",
        "mutt",
        "scp",
        "rsync",
        "ftp",
        "sftp",
        "dig",
        "nslookup",
        "ping",
        "http",
        "https",
        "rclone",
        "aws",
        "gsutil",
        "ssh",
        "host",
    }
)
_RAW_SENDERS = frozenset(
    {"curl", "wget", "nc", "ncat", "netcat", "telnet", "socat", "openssl", "mail", "mailx", "sendmail"}
)
_FILE_SOURCES = frozenset(
    (
        "cat",
        "tar",
        "zip",
        "gzip",
        "base64",
        "xxd",
        "mysqldump",
        "pg_dump",
        "pg_dumpall",
        "mongodump",
        "find",
        "dd",
        "gpg",
    )
)
MOST_CODE = 2_000
"""Characters of a one-liner whose quoted strings are read as commands."""
_INSTALLERS = re.compile(
    r"https://(?:astral\.sh/|(?:www\.)?sh\.rustup\.rs|install\.python-poetry\.org|get\.docker\.com|bootstrap\.pypa\.io/|deb\.nodesource\.com/"
    r"|raw\.githubusercontent\.com/(?:Homebrew|nvm-sh|pypa)/|fnm\.vercel\.app|bun\.sh|deno\.land|get\.pnpm\.io|micro\.mamba\.pm|pixi\.sh|pyenv\.run|ollama\.com/)"
)
_SECRET_VARIABLE = re.compile(
    r"\$\{?\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|PRIVATE_KEY|ACCESS_KEY)\w*", re.I
)


def _delete_target(target: str, assignments: tuple[str, ...]) -> float:
    """Returns how bad it is to delete `target` recursively: 3 root, home, system; 2 outside the project; 0 inside."""
    path = target.rstrip("/") or "/"
    if (
        any(a.startswith("TMPDIR=") and not a.startswith(("TMPDIR=/tmp", "TMPDIR=/var/tmp/")) for a in assignments)
        and "TMPDIR" in path
    ):
        return 2.0
    if (_TEMPORARY.match(target) or _CACHE.match(target)) and ".." not in target:
        return 0.0
    if (
        _ROOT.match(path)
        or _ROOT.match(target)
        or path in ("/*", "~", "~/*", "$HOME", "${HOME}", "*")
        or "--no-preserve-root" in path
    ):
        return 3.0
    if _HOME.match(path) or _SYSTEM.match(path):
        return 3.0 if path.count("/") <= 2 or _SYSTEM.match(path) else 2.0
    if path.startswith(("/", "$(pwd", "`pwd", "~")) or ".." in path.split("/") or path in (".", "./*", ".git"):
        return 2.0
    return 0.0


def _rm(command: Command) -> Iterator[Verdict]:
    flags = command.flags()
    recursive = "r" in flags.lower() or command.has("--recursive")
    force = "f" in flags or command.has("--force")
    if not recursive:
        return
    if command.has("--no-preserve-root"):
        yield "recursive-delete", "destruction", 3.0
        return
    targets = command.operands()
    if (not targets and command.fed) or "{}" in targets:
        if force:
            yield "recursive-delete-fed", "destruction", 2.0
        return
    worst = max((_delete_target(target, command.assignments) for target in targets), default=0.0)
    if command.after in ("cd", "pushd") and targets and force:
        worst = max(worst, 2.0)
    if worst and (force or worst >= 3):
        yield "recursive-delete", "destruction", worst


_BELOW = re.compile(r"(?:\./)?[\w-][\w./-]{1,200}\Z")


_AGED = re.compile(r"-[acm]time \+(?:[7-9]|\d{2,4})\b|-[acm]min \+\d{4,6}\b")
"""Only files that were not touched for a week or more."""
_SHARED = re.compile(r"/(?:mnt|data|scratch|srv|shared|nfs|home|projects?|work|export|media)(?:/[\w-]{1,40})?/?\Z")


def _find(command: Command) -> Iterator[Verdict]:
    if "-delete" in command.args and not any(
        a in command.args[: command.args.index("-delete")] for a in ("-exec", "-ok")
    ):
        roots = [arg for arg in command.args[:2] if not arg.startswith("-")]
        if not roots or not all(_TEMPORARY.match(root) for root in roots):
            wide = any(_ROOT.match(root) or _HOME.match(root) for root in roots)
            rubbish = not wide and any(_RUBBISH.fullmatch(arg) for arg in command.args)
            # A folder of the project, and files by their names in it: what a person cleans up.
            named = all(_BELOW.match(root) for root in roots) and any(a in command.args for a in ("-name", "-iname"))
            aged = not wide and _AGED.search(" ".join(command.args)) is not None  # what a quota asks for
            kept = rubbish or aged or (named and roots)
            if not (wide or kept) and any(_SHARED.match(root) for root in roots):
                wide = not any(a in command.args for a in ("-name", "-iname", "-user", "-path", "-empty"))
            yield "find-delete", "destruction", 3.0 if wide else 1.0 if kept else 2.0


def _git(command: Command) -> Iterator[Verdict]:
    args = list(command.args)
    while args and args[0].startswith("-"):
        args = args[2:] if args[0] in ("-C", "-c", "--git-dir", "--work-tree") else args[1:]
    if not args:
        return
    sub = Command(f"git {args[0]}", tuple(args[1:]))
    flags, verb = sub.flags(), args[0]
    if "--help" in args or "-h" in args[1:]:
        return
    if verb == "push":
        plus = any(arg.startswith("+") for arg in sub.operands())
        lease = sub.has("--force-with-lease", "--force-if-includes")
        if plus or ((sub.has("--force") or "f" in flags) and not lease) or sub.has("--mirror"):
            main = any(re.search(r"(?:^|[:/+])(?:main|master|production|release)$", arg) for arg in sub.operands())
            yield "forced-push", "destruction", 3.0 if main or sub.has("--mirror") else 2.0
        elif sub.has("--delete") or "d" in flags or any(arg.startswith(":") for arg in sub.operands()):
            yield "remote-branch-delete", "destruction", 2.0
    elif (verb == "reset" and sub.has("--hard", "--merge")) or (
        verb == "clean" and ("f" in flags or sub.has("--force")) and "n" not in flags and not sub.has("--dry-run")
    ):
        yield "git-discard", "destruction", 2.0
    elif verb == "checkout" and not sub.has("-b", "--orphan", "--track") and not re.search(r"[bBt]", flags):
        paths = (
            "--" in args[1:]
            or "f" in flags
            or sub.has("--force", "--pathspec-from-file")
            or (sub.operands() and sub.operands()[-1] in (".", "*"))
        )
        dotted = len(sub.operands()) >= 2 and any("." in arg for arg in sub.operands()[1:])
        if (paths or dotted) and not sub.has("--recurse-submodules"):
            yield "git-discard", "destruction", 2.0
    elif (
        (verb == "restore" and (not (sub.has("--staged") or "S" in flags) or sub.has("--worktree") or "W" in flags))
        or (
            verb == "switch"
            and (
                ("f" in flags.replace("c", "") and not re.search(r"[cC]", flags))
                or sub.has("--force", "--discard-changes")
            )
        )
        or (verb == "branch" and ("D" in flags or (sub.has("--delete") and sub.has("--force"))))
        or (verb == "stash" and sub.operands()[:1] in (("drop",), ("clear",)))
        or (verb == "worktree" and sub.operands()[:1] == ("remove",) and ("f" in flags or sub.has("--force")))
    ):
        yield "git-discard", "destruction", 2.0
    elif (
        verb in ("filter-branch", "filter-repo")
        or (verb == "reflog" and "expire" in args)
        or (verb == "gc" and sub.has("--prune"))
    ):
        yield "git-rewrite", "destruction", 2.0
    elif (
        verb == "config"
        and any(_HOOK_SETTING.match(arg) for arg in sub.operands())
        and any(re.search(r"[!;|$`]|/tmp|http|store", arg) for arg in sub.operands()[1:])
    ):
        yield "git-config-hook", "persistence", 2.0


_IMAGE = re.compile(r"if=\S{1,200}\.(?:iso|img|raw|wic)\Z")
_FIRST_DISK = re.compile(r"of=/dev/(?:sda|vda|xvda|hda|nvme0n1|mmcblk0|disk0)")


def _dd(command: Command) -> Iterator[Verdict]:
    # An image goes to a stick or a card; the first disk is mostly the machine's own.
    imaged = any(_IMAGE.match(arg) for arg in command.args) and not any(_FIRST_DISK.match(a) for a in command.args)
    for arg in command.args:
        if arg.startswith("of=") and _DISK.match(arg[3:]):
            yield "disk-write", "destruction", 1.0 if imaged else 3.0


def _chmod(command: Command) -> Iterator[Verdict]:
    mode, *targets = command.operands() or ("",)
    recursive = "R" in command.flags() or command.has("--recursive")
    if re.fullmatch(r"[0-7]?777|a\+rwx|\+rwx|ugo\+rwx|000", mode):
        wide = any(_ROOT.match(t) or _SYSTEM.match(t) or _HOME.match(t) for t in targets)
        if wide:
            yield "open-permissions", "privilege", 3.0 if recursive or mode.endswith("777") else 2.0
        elif recursive and any(t in (".", "*") or t.startswith("/") for t in targets):
            yield "open-permissions", "privilege", 2.0
    if re.fullmatch(r"[ug]*\+s|[46][0-7]{3}", mode) and targets:
        yield "set-uid", "privilege", 3.0


def _chown(command: Command) -> Iterator[Verdict]:
    if ("R" in command.flags()) and any(_ROOT.match(t) or _SYSTEM.match(t) for t in command.operands()[1:]):
        yield "take-ownership", "privilege", 3.0


def _fetch(command: Command) -> Iterator[Verdict]:
    joined = " ".join(command.args)
    upload = re.search(
        r"(?:^| )(?:-d|--data(?:-\w+)?|-F|--form|-T|--upload-file|--post-file|--post-data|--body-file)[ =]?\s{0,2}(\S+)",
        joined,
    )
    sends_file = upload is not None and (
        "@" in upload.group(1) or "-T" in command.args or "--upload-file" in joined or "post-file" in joined
    )
    if upload is not None and _SECRET_VARIABLE.search(joined) and re.search(r"https?://(?!localhost|127\.)", joined):
        yield "exfiltrate-secret", "exfiltration", 3.0
    elif any(_CREDENTIAL_FILE.search(arg.split("@")[-1]) for arg in command.args if "://" not in arg):
        yield "exfiltrate-credentials", "exfiltration", 3.0
    elif (
        "$(" in joined
        and upload is not None
        and re.search(r"\$\((?:cat|env|printenv|whoami|id|hostname|ls|history)\b", joined)
    ):
        yield "exfiltrate-output", "exfiltration", 3.0
    elif sends_file and re.search(r"https?://", joined) and not re.search(r"localhost|127\.0\.0\.1", joined):
        yield "upload-file", "exfiltration", 1.5
    if re.search(r"169\.254\.169\.254|metadata\.google\.internal|100\.100\.100\.200", joined):
        yield "cloud-metadata", "exfiltration", 3.0
    if command.program in ("curl", "wget") and any(_STARTUP_FILE.search(arg) for arg in command.args):
        yield "startup-file", "persistence", 3.0


def _netcat(command: Command) -> Iterator[Verdict]:
    flags = command.flags()
    if re.search(r"[ec]", flags) or command.has("--exec", "--sh-exec"):
        yield "reverse-shell", "remote-control", 3.0
    elif any(_CREDENTIAL_FILE.search(path) for path in command.inputs):
        yield "exfiltrate-credentials", "exfiltration", 3.0
    elif command.inputs and not re.search(r"localhost|127\.0\.0\.1|-l", " ".join(command.args)):
        yield "upload-file", "exfiltration", 2.0


def _read(command: Command) -> Iterator[Verdict]:
    for arg in (*command.operands(), *command.inputs):
        if _CREDENTIAL_FILE.search(arg):
            public = arg.endswith(("/etc/passwd", ".pub", ".env.example", ".pem"))
            yield "credential-file", "credentials", 1.0 if public else 2.0
            return


def _copy_out(command: Command) -> Iterator[Verdict]:
    remote = any(re.match(r"^(?:[\w.-]+@)?[\w.-]+:[^\\]?", arg) or "://" in arg for arg in command.operands())
    if any(_CREDENTIAL_FILE.search(arg) for arg in command.operands()):
        yield "credential-copy", "exfiltration", 3.0 if remote else 2.0
    if command.operands() and _STARTUP_FILE.search(command.operands()[-1]):
        yield "startup-file", "persistence", 2.5


def _schedule(command: Command) -> Iterator[Verdict]:
    if command.program == "crontab" and not ({"-l", "-e"} & set(command.args)):
        yield "scheduled-job", "persistence", 3.0 if "r" in command.flags() or command.source else 2.0
    if command.program == "at" and command.source is not None:
        yield "scheduled-job", "persistence", 2.0
    if command.program == "schtasks" and any(arg.lower() == "/create" for arg in command.args):
        yield "scheduled-job", "persistence", 3.0


def _package(command: Command) -> Iterator[Verdict]:
    joined = " ".join(command.args)
    if "install" not in command.args and command.args[:1] not in (("add",), ("i",)):
        return
    if re.search(r"--(?:extra-)?index-url[= ]http://|--trusted-host|--registry[= ]http://", joined):
        yield "untrusted-index", "supply-chain", 2.0
    elif re.search(
        r"(?:git\+|\s)(?:http://|https?://\d{1,3}(?:\.\d{1,3}){3}|https?://[\w.-]*(?:evil|attacker|malicious|pastebin|ngrok|transfer\.sh))",
        joined,
    ):
        yield "untrusted-package", "supply-chain", 3.0


def _service(command: Command) -> Iterator[Verdict]:
    words = {arg.lower() for arg in command.args}
    joined = " ".join(command.args)
    security = re.search(
        r"firewalld|ufw|auditd|apparmor|fail2ban|clamav|falcon|osquery|syslog|selinux|iptables|crowdstrike|wazuh|defend",
        joined,
        re.I,
    )
    if command.program in ("systemctl", "service") and {"stop", "disable", "mask"} & words and security:
        yield "disable-protection", "sabotage", 3.0
    if command.program == "ufw" and {"disable", "reset"} & words:
        yield "disable-protection", "sabotage", 3.0
    if command.program in ("iptables", "ip6tables", "nft") and (
        "F" in command.flags() or "flush" in words or re.search(r"-P \w+ ACCEPT", joined)
    ):
        yield "disable-protection", "sabotage", 3.0
    if command.program == "setenforce" and words & {"0", "permissive"}:
        yield "disable-protection", "sabotage", 3.0


def _account(command: Command) -> Iterator[Verdict]:
    joined = " ".join(command.args)
    if command.program in ("useradd", "adduser", "usermod", "net", "dscl"):
        if re.search(
            r"-u 0\b|-[aA]?G\s?\S*(?:sudo|wheel|root|docker|admin)|-o\b|/add\b|localgroup administrators",
            joined,
            re.I,
        ):
            yield "new-account", "privilege", 3.0
    elif command.program in ("passwd", "chpasswd"):
        yield (
            "change-password",
            "privilege",
            2.0 if command.source or "root" in joined or "-d" in command.args else 1.0,
        )
    elif command.program == "visudo":
        yield "change-password", "privilege", 1.0


def _cloud(command: Command) -> Iterator[Verdict]:
    joined = f"{command.program} {' '.join(command.args)}"
    if re.search(
        r"terraform (?:destroy|apply -destroy)|pulumi destroy|kubectl delete (?:ns|namespaces?|deployments?|pvc?|nodes?|clusterrole\w*|all|pods? --all|-f)|kubectl drain"
        r"|aws s3 (?:rb|rm .*--recursive)|aws \w+ (?:delete|terminate)-\w+|gcloud .* delete\b|az .* delete\b|gsutil .*rm -r|docker system prune (?:-a|--all|-f)"
        r"|docker (?:rm|rmi|volume rm) -f|docker volume prune|helm (?:uninstall|delete)|heroku apps:destroy|gh repo delete|vercel (?:rm|remove)|redis-cli .*flush(?:all|db)"
        r"|dropdb\b|mysqladmin .*drop|rclone (?:purge|delete)|npm (?:unpublish|publish)",
        joined,
        re.I,
    ):
        yield "resource-delete", "destruction", 2.5
    if re.search(r"docker run .*(?:--privileged|-v /:/|--pid[= ]host|-v /var/run/docker\.sock)", joined):
        yield "container-escape", "privilege", 2.5
    if re.search(
        r"aws iam (?:create-access-key|attach-\w+-policy|put-\w+-policy)|create clusterrolebinding .*cluster-admin|secretsmanager get-secret|get secrets? ",
        joined,
    ):
        yield "cloud-credentials", "credentials", 2.5


_RUNS_SHELL = re.compile(r"system|popen|subprocess|child_process|exec|spawn|shell_exec|passthru|%x|`")
_LITERAL = re.compile(r"\"([^\"]{4,300})\"|'([^']{4,300})'|`([^`]{4,300})`")
_OPENS = re.compile(
    r"(?:open|readFile(?:Sync)?|file_get_contents|File\.read|read_text|slurp|Path)\(\s{0,2}[\"']([^\"'\n]{2,200})[\"']"
)
_FETCHES = re.compile(
    r"exec\([^\n]{0,80}(?:urlopen|requests\.get|httpx|fetch)|eval\([^\n]{0,80}(?:urlopen|requests\.get|file_get_contents\([\"']https?|LWP|open-uri)"
    r"|(?:urlopen|requests\.get|https?\.get)\([^\n]{0,160}(?:exec|eval|spawn|system)\("
)


def _interpreter(command: Command) -> Iterator[Verdict]:
    for flag, value in zip(command.args, command.args[1:], strict=False):
        if flag not in ("-c", "-e", "-r", "--eval", "-E", "-pe", "-ne", "-m"):
            continue
        if re.search(
            r"\brm\s+-\w*r\w*f?\w*\s+[/~.*]|(?:rmtree|rm(?:dir)?Sync|rm_rf|remove_dir_all)\(?\s?['\"][/~]", value
        ):
            yield "recursive-delete", "destruction", 2.5
        if _FETCHES.search(value):
            yield "network-to-shell", "remote-code", 3.0
        if any(_CREDENTIAL_FILE.search(match.group(1)) for match in _OPENS.finditer(value)):
            yield "credential-file", "credentials", 2.0
        if _RUNS_SHELL.search(value):
            for match in _LITERAL.finditer(value[:MOST_CODE]):
                for inner in commands(next(text for text in match.groups() if text is not None), 3):
                    yield from judge(inner)
    if (
        command.program == "python"
        and command.args[:2] == ("-m", "http.server")
        and any(a in ("/", "~") for a in command.args)
    ):
        yield "serve-files", "exfiltration", 2.0


def _misc(command: Command) -> Iterator[Verdict]:
    program, joined = command.program, " ".join(command.args)
    if program.startswith("mkfs") or (
        program in ("wipefs", "blkdiscard", "fdisk", "parted", "sgdisk", "shred") and "/dev/" in joined
    ):
        yield "disk-write", "destruction", 3.0
    elif program == "shred" or (program == "srm"):
        yield "shred", "destruction", 3.0 if "/" in joined else 2.0
    elif program == "history" and ("c" in command.flags() or "w" in command.flags()):
        yield "cover-tracks", "sabotage", 2.5
    elif program == "unset" and "HISTFILE" in joined:
        yield "cover-tracks", "sabotage", 3.0
    elif program in ("insmod", "kexec") or (program == "sysctl" and "-w" in command.args and "randomize_va" in joined):
        yield "kernel-change", "privilege", 2.0
    elif program in ("shutdown", "poweroff", "halt", "reboot", "init") and (program != "init" or joined in ("0", "6")):
        is_bare = program == "reboot" and (not command.args or command.args[0] == "#")
        restarts = program == "reboot" or "-r" in command.args
        yield "shutdown", "destruction", 0.75 if is_bare else 1.0 if restarts else 2.0
    elif program in ("kill", "killall", "pkill") and re.search(r"-(?:9|KILL|SIGKILL) -1\b|-9 1$", joined):
        yield "kill-everything", "destruction", 3.0
    elif program == "mv" and (
        command.args[-1:] == ("/dev/null",) or any(_ROOT.match(a) or a in ("~", "/*") for a in command.operands()[:1])
    ):
        yield "move-away", "destruction", 3.0
    elif program == "tee" and any(_STARTUP_FILE.search(arg) for arg in command.operands()):
        yield "startup-file", "persistence", 3.0
    elif (
        program
        in (
            "xmrig",
            "minerd",
            "cpuminer",
            "msfvenom",
            "msfconsole",
            "mimikatz",
            "hydra",
            "sqlmap",
            "john",
            "hashcat",
        )
        and command.args
    ):
        yield "attack-tool", "remote-control", 2.5
    elif program == "truncate" and any(_SYSTEM.match(a) for a in command.operands()):
        yield "truncate", "destruction", 3.0
    elif program in ("tar", "zip", "base64", "gpg", "xxd", "openssl") and any(
        _CREDENTIAL_FILE.search(arg) for arg in (*command.operands(), *command.inputs)
    ):
        yield "credential-file", "credentials", 2.0
    elif program == "ssh" and re.search(r"-R \S*\d+:|StrictHostKeyChecking=no.*-[NfR]", joined):
        yield "reverse-tunnel", "remote-control", 2.0
    elif program == "export" and re.search(r"LD_PRELOAD=|PROMPT_COMMAND=|HISTFILE=/dev/null|PYTHONSTARTUP=", joined):
        yield "startup-variable", "persistence", 2.5


_JUDGES: dict[str, Callable[[Command], Iterator[Verdict]]] = {
    "rm": _rm, "unlink": _rm, "find": _find, "git": _git, "dd": _dd, "chmod": _chmod, "chown": _chown, "curl": _fetch, "wget": _fetch,
    "nc": _netcat, "ncat": _netcat, "netcat": _netcat, "scp": _copy_out, "rsync": _copy_out, "cp": _copy_out, "sftp": _copy_out, "ln": _copy_out,
    "crontab": _schedule, "at": _schedule, "schtasks": _schedule, "systemctl": _service, "service": _service, "ufw": _service,
    "iptables": _service, "ip6tables": _service, "nft": _service, "setenforce": _service,
    **dict.fromkeys(("cat", "less", "more", "head", "tail", "grep", "strings", "awk", "sed", "vi", "vim", "nano", "bat", "tac", "od", "cut", "type", "xxd", "nl", "hexdump", "rev", "sort", "base32", "tail", "view", "emacs", "pr", "fold", "diff"), _read),
    **dict.fromkeys(("pip", "pip3", "npm", "yarn", "pnpm", "uv", "gem", "cargo", "poetry"), _package),
    **dict.fromkeys(("useradd", "adduser", "usermod", "net", "dscl", "passwd", "chpasswd", "visudo"), _account),
    **dict.fromkeys(("aws", "gcloud", "az", "kubectl", "terraform", "docker", "helm", "gsutil", "pulumi", "heroku", "gh", "redis-cli", "dropdb",
                     "mysqladmin", "rclone", "vercel"), _cloud),
    **dict.fromkeys(INTERPRETERS, _interpreter),
}  # fmt: skip


def judge(command: Command) -> Iterator[Verdict]:
    """Yields the verdicts on one simple command, in no promised order."""
    handler = _JUDGES.get(command.program)
    yield from (handler or _misc)(command)
    if handler is not None:
        yield from _misc(command)
    yield from by_program(command.program, command.args)
    if any(_DISK.match(target) for target in command.targets):
        yield "disk-write", "destruction", 3.0
    if any(_STARTUP_FILE.search(target) for target in command.targets):
        yield "startup-file", "persistence", 3.0
    if any(target.startswith(("/dev/tcp/", "/dev/udp/")) for target in (*command.targets, *command.inputs)):
        yield "reverse-shell", "remote-control", 3.0
    if any(
        _SYSTEM.match(target)
        and not target.startswith(
            ("/dev/null", "/dev/std", "/dev/shm", "/var/log", "/dev/tty", "/opt", "/mnt", "/home", "/srv")
        )
        for target in command.targets
    ):
        yield "system-file-write", "destruction", 2.0
    source = command.source
    if source is None:
        return
    runs_input = command.program in SHELLS and (not command.operands() or "-s" in command.args)
    runs_input = runs_input or (command.program in INTERPRETERS and (not command.args or command.args[0] == "-"))
    if runs_input and source.program in _NETWORK:
        if not _INSTALLERS.search(" ".join(source.args)):
            yield "network-to-shell", "remote-code", 3.0
    elif runs_input and source.program in ("base64", "xxd", "openssl", "gunzip", "rev"):
        yield "decoded-to-shell", "remote-code", 3.0
    elif runs_input and source.program in ("echo", "printf"):
        for inner in commands(" ".join(source.args), 2):
            yield from judge(inner)
    if command.program in _RAW_SENDERS and not re.search(r"localhost|127\.0\.0\.1", " ".join(command.args)):
        posts = command.program not in ("curl", "wget") or re.search(r"@-|-T -|--upload-file -", " ".join(command.args))
        if posts and source.program in _FILE_SOURCES:
            yield "upload-pipe", "exfiltration", 2.0
    if command.program in _SENDERS:
        origin: Command | None = source
        while origin is not None:
            if origin.program in ("env", "printenv", "set", "history") or any(
                _CREDENTIAL_FILE.search(a) for a in (*origin.args, *origin.inputs)
            ):
                yield "exfiltrate-pipe", "exfiltration", 3.0
                break
            origin = origin.source


def judge_line(line: str) -> list[Verdict]:
    """Returns the verdicts on a shell line, one per rule, the heaviest kept."""
    worst: dict[str, Verdict] = {}
    for command in commands(line):
        if not command.program and not command.targets:
            continue
        for verdict in judge(command):
            if verdict[0] not in worst or worst[verdict[0]][2] < verdict[2]:
                worst[verdict[0]] = verdict
    return list(worst.values())


PROGRAMS = frozenset(_JUDGES) | NAMED_PROGRAMS
"""Programs with a judge of their own."""
