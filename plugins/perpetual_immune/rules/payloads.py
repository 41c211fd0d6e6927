"""Code whose parts give it away: reverse shells, downloaders, database wipes, persistence.  Imported by `scanner`.

Signatures join two parts that are harmless apart (a socket and a shell; a download and an execution), because every
language spells each part its own way.  Standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.context import bounded, defended, described, of_tests, own_setting, warned
from perpetual_immune.rules.hit import Hit, fold, negated, pattern, reported
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.said import only_what_is_said

_SOCKET = pattern(
    r"socket\.socket\(|TCPSocket|fsockopen|IO::Socket|use Socket|net\.Socket|net\.connect|new Socket\(|Net\.Sockets\.TCPClient|TCPClient\(|/inet/tcp/"
    r"|net\.Dial\(|TcpStream::connect|require\(['\"]socket['\"]\)|/dev/(?:tcp|udp)/|WSASocket|gen_tcp:connect|Process::Socket|require\(['\"]net['\"]\)",
)
_SPAWN = pattern(
    r"pty\.spawn|os\.dup2|dup2\(|/bin/(?:ba|z|da|k|a)?sh\b|cmd\.exe|\bexec\(?\s?[\"']|subprocess\.(?:call|Popen|run)|exec\.Command|ProcessBuilder|Runtime\.getRuntime"
    r"|child_process|\biex\b|Invoke-Expression|io\.popen|Process\.(?:Start|new)|powershell|shell_exec|proc_open|popen\(|Command::new|\bsh -i\b|bash -i",
)
_ADDRESS = pattern(
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:LHOST|RHOST|ATTACKER\w*|LPORT|evil|attacker)\b|[\"'][\w.-]+\.\w+[\"'],\s?\d{2,5}",
)

SIGNATURES: tuple[tuple[str, str, float, Rule], ...] = tuple(
    (rule, family, weight, pattern(source))
    for rule, family, weight, source in (
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"(?:ba|z|k)?sh\b[^\n]{0,24}/dev/(?:tcp|udp)/|/dev/(?:tcp|udp)/[\w.$-]+/\S+[^\n]{0,40}(?:0>&1|<&|>&|\bsh\b|while)|exec \d+<>/dev/(?:tcp|udp)",
        ),
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"\b(?:nc|ncat|netcat|busybox nc)\b[^\n|;]{0,80}\s(?:-\w*[ec]|--(?:sh-)?exec)\s{0,3}\S*(?:sh|bash|cmd|powershell)",
        ),
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"\bmk(?:fifo|nod)\b[^\n]{0,120}\|[^\n]{0,120}\b(?:nc|ncat|netcat|telnet|openssl)\b",
        ),
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"\bsocat\b[^\n]{0,160}\bexec:|\bsocat\b[^\n]{0,80}\btcp[^\n]{0,80}(?:sh|pty)|\btelnet\b[^\n|]{1,60}\|\s{0,3}\S*sh\b|\bopenssl s_client\b[^\n]{0,120}-connect|\bsh(?:ell)?\b[^\n|]{0,40}\|\s{0,3}(?:nc|telnet|openssl)\b",
        ),
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"\bmsfvenom\b[^\n]{0,40}-p|\bmeterpreter\b[^\n]{0,60}(?:reverse|bind)_|set payload \S+/(?:reverse|bind)",
        ),
        (
            "reverse-shell",
            "remote-control",
            3.0,
            r"/inet/(?:tcp|udp)/|\bsocket\b[^\n]{0,30}'/bin/(?:ba)?sh|\[socket \$|\b(?:nc|ncat|netcat)\b[^\n]{0,60}\|\s{0,3}/?\S{0,12}(?:ba|z|da)?sh\b|using sockets;[^\n]{0,160}connect\(",
        ),
        (
            "output-in-request",
            "exfiltration",
            2.5,
            r"\b(?:dig|nslookup|drill|whois|finger|rlogin|ping)\b[^\n|;]{0,120}\$\(\s{0,2}(?:cat|base64|env|printenv|whoami|id|hostname|uname|xxd|history|head)\b|\b(?:curl|wget)\b[^\n|;]{0,120}https?://[^\s|;]{0,160}\$\(\s{0,2}(?:cat|base64|env|printenv|whoami|id|xxd|history|head)\b",
        ),
        (
            "shell-escape",
            "privilege",
            2.5,
            r"(?:system|exec\w{0,4}|spawn\w{0,3}|popen)\s?\(?\s?[\[\"'({]{1,3}/bin/(?:ba|da|z)?sh\b|(?<!#)(?::!?|!)/bin/(?:ba|da|z)?sh\b|checkpoint-action=exec|--to-command=|-exec /bin/(?:ba)?sh\b|:!(?:ba)?sh\b|\bproxycommand=[^\n]{0,20}sh\b|os\.execl\(",
        ),
        (
            "download-and-run",
            "remote-code",
            2.5,
            r"\b(?:curl|wget|fetch|aria2c|iwr|invoke-webrequest|start-bitstransfer|certutil)\b[^\n]{0,160}(?:http://|https?://\d{1,3}\.\d|\.(?:ru|xyz|tk|top|onion|cc|pw|su|cn)/|ngrok|pastebin|evil|attacker|malicious|/tmp/|/dev/shm|%temp%|\$env:temp)[^\n]{0,160}(?:;|&&|\|\|?|\n)\s{0,4}(?:sudo )?[^\n]{0,60}(?:\bchmod \+?[0-7ugoa]{0,4}\+?x|\bchmod [0-7]{3}|\b(?:ba|z|da)?sh [\w./$-]|\bpython3? [\w./$]|\bperl [\w./$]|\./\w|start-process|\bstart \S)",
        ),
        (
            "shell-of-url",
            "remote-code",
            3.0,
            r"(?:\b(?:ba|z|da|k)?sh|\bsource|\beval|(?:^|[;&|\s])\.)\s{1,3}(?:-c\s{1,3})?[\"']?(?:<\(|\$\(|`)\s{0,3}(?:curl|wget|fetch)\b(?![^\n]{0,80}https://(?:astral\.sh|sh\.rustup\.rs|install\.python-poetry|get\.docker\.com|raw\.githubusercontent\.com/(?:homebrew|ohmyzsh|nvm-sh)|pyenv\.run|ollama\.com))",
        ),
        (
            "powershell-send",
            "exfiltration",
            2.5,
            r"\b(?:invoke-webrequest|invoke-restmethod|iwr|irm)\b[^\n]{0,200}(?:-infile|-method\s{1,3}post[^\n]{0,80}(?:get-content|\$env:|gc )|get-content|get-childitem env:)|\b(?:get-content|gc|type)\b[^\n]{0,80}(?:\.ssh|id_rsa|\.aws|sam\b|login data|credentials)",
        ),
        (
            "powershell-rights",
            "privilege",
            2.5,
            r"\bnew-localuser\b|\badd-localgroupmember\b[^\n]{0,60}administrators|set-netfirewallprofile\b[^\n]{0,60}false|\bnew-service\b[^\n]{0,80}-binary|remove-eventlog|disable-windowsoptionalfeature|\bset-itemproperty\b[^\n]{0,120}(?:\\run\b|winlogon|enablelua|disableantispyware)|stop-service\b[^\n]{0,40}(?:windefend|mpssvc|eventlog|sense)|start-process\b[^\n]{0,80}-verb runas[^\n]{0,60}hidden",
        ),
        (
            "web-shell",
            "remote-control",
            3.0,
            r"<\?(?:php|=)?[^>]{0,120}\b(?:system|exec|passthru|shell_exec|eval|assert|popen)\(\s{0,3}[^)]{0,60}\$_(?:GET|POST|REQUEST|COOKIE|SERVER)|Runtime\.getRuntime\(\)\.exec\(\s?request|eval\(\s?request",
        ),
        (
            "fork-bomb",
            "destruction",
            3.0,
            r":\s?\(\s?\)\s?\{\s?:\s?\|\s?:\s?&\s?\}\s?;\s?:|\b(\w{1,12})\(\)\s?\{\s?\1\s?\|\s?\1\s?&\s?\}",
        ),
        (
            "powershell-download",
            "remote-code",
            3.0,
            r"\b(?:iex|Invoke-Expression)\b[^\n]{0,120}(?:DownloadString|WebClient|irm|iwr|Invoke-(?:WebRequest|RestMethod)|FromBase64String)|(?:DownloadString|irm|iwr|Invoke-(?:WebRequest|RestMethod))\b[^\n]{0,160}\|\s{0,3}(?:iex|Invoke-Expression)",
        ),
        (
            "powershell-encoded",
            "remote-code",
            3.0,
            r"\bpowershell(?:\.exe)?\b[^\n]{0,120}\s-(?:e|ec|en|enc|encodedcommand)\s{1,3}[A-Za-z0-9+/=]{20,}|powershell[^\n]{0,80}-(?:w|windowstyle) hidden",
        ),
        (
            "windows-download",
            "remote-code",
            3.0,
            r"\bcertutil\b[^\n]{0,60}-urlcache|\bbitsadmin\b[^\n]{0,60}/transfer|\bmshta\b\s{1,3}(?:https?|javascript|vbscript):|\bregsvr32\b[^\n]{0,60}/i:http|\brundll32\b[^\n]{0,40}(?:javascript:|http)|\bwmic\b[^\n]{0,40}process call create",
        ),
        (
            "windows-persistence",
            "persistence",
            3.0,
            r"\breg(?:\.exe)?\s{1,3}add\b[^\n]{0,120}\\(?:Run|RunOnce|Winlogon|Image File Execution)|New-ItemProperty[^\n]{0,120}CurrentVersion\\Run|Register-ScheduledTask|schtasks(?:\.exe)? /create",
        ),
        (
            "windows-wipe",
            "destruction",
            3.0,
            r"\bvssadmin\b[^\n]{0,30}delete shadows|\bwbadmin delete\b|\bbcdedit\b[^\n]{0,60}recoveryenabled|\bformat(?:\.com)?\s{1,3}[a-z]:|\bdel\b[^\n]{0,24}/[sfq]\b[^\n]{0,24}/[sfq]\b|\brd\b\s{1,3}/s\b|\brmdir\b\s{1,3}/s\b|Remove-Item\b[^\n]{0,80}-Recurse[^\n]{0,40}(?:-Force|[A-Z]:\\|/)|cipher /w:|Clear-Disk|Format-Volume",
        ),
        (
            "windows-defence-off",
            "sabotage",
            3.0,
            r"Set-MpPreference\b[^\n]{0,60}-Disable|Add-MpPreference\b[^\n]{0,40}-Exclusion|netsh (?:advfirewall|firewall) set[^\n]{0,60}(?:off|disable)|Set-ExecutionPolicy\s{1,3}(?:-\w+\s{1,3}){0,2}(?:Bypass|Unrestricted)[^\n]{0,40}-Force|wevtutil cl\b|Clear-EventLog|sc (?:stop|config|delete) windefend",
        ),
        (
            "credential-dump",
            "credentials",
            3.0,
            r"\bmimikatz\b|sekurlsa::|lsadump::|procdump\b[^\n]{0,40}lsass|comsvcs\.dll[^\n]{0,40}minidump|\breg save hklm\\(?:sam|system|security)|\bntdsutil\b|secretsdump",
        ),
        (
            "sql-wipe",
            "destruction",
            2.5,
            r"\bDROP\s{1,4}(?:DATABASE|SCHEMA)\b(?!\s{1,4}IF EXISTS\s+(?:test|tmp))|\bDROP\s{1,4}TABLE\s{1,4}(?:IF EXISTS\s{1,4})?[\w.\"`*]{1,60}\s{0,3}(?:;|CASCADE|--)|\bTRUNCATE\s{1,4}TABLE\s{1,4}\w|\bDELETE\s{1,4}FROM\s{1,4}[\w.\"`]{1,60}\s{0,3}(?:;|$|WHERE\s{1,4}1\s?=\s?1)|\bUPDATE\s{1,4}[\w.\"`]{1,60}\s{1,4}SET\b[^;\n]{1,160}\bWHERE\s{1,4}1\s?=\s?1",
        ),
        (
            "sql-injection",
            "remote-code",
            3.0,
            r"'\s?(?:or|and)\s{1,3}'?1'?\s?=\s?'?1|\bunion\s{1,3}(?:all\s{1,3})?select\b[^\n]{0,80}\b(?:null|from|@@version|password|user)|;\s?(?:drop|exec|shutdown)\b[^\n]{0,60}--|xp_cmdshell|\binto\s{1,3}outfile\b|\bsleep\(\d+\)\s?(?:--|#)|pg_sleep\(|waitfor delay",
        ),
        (
            "code-injection",
            "remote-code",
            2.5,
            r"__import__\(['\"](?:os|subprocess|pty)['\"]\)\.\w+\(|\beval\(\s?(?:base64|atob|bytes|compile|zlib)|\bexec\(\s?(?:base64|requests\.get|urllib|zlib|marshal|codecs|bytes\.fromhex|__import__)|pickle\.loads\(\s?(?:requests|urllib|base64)|\{\{[^}]{0,40}__(?:class|globals|import|init)__|\$\{jndi:|__subclasses__\(\)",
        ),
        (
            "path-traversal",
            "credentials",
            2.5,
            r"(?:\.\./){3,12}(?:etc/|proc/|root/|windows/|\w{0,20}\.(?:env|key|pem))|\.\.%2f|%2e%2e%2f|(?:\.\.\\){3,}|file:///(?:etc|proc|root|c:)",
        ),
        (
            "command-injection",
            "remote-code",
            2.5,
            r"(?:^|[\w\"'.=?])[;|&`]{1,2}\s?(?:cat|id|whoami|ls|wget|curl|nc|bash|sh|ping|sleep|rm|uname|nslookup)\b\s{0,2}(?:/etc/|-[a-z]|http|\$|/bin|%|\{|<)|[\w\"'.=&?]\s[;|&]{1,2}\s?(?:cat|ls|ping|nslookup|sleep|id|whoami)\b\s{0,2}(?:/etc/|\$|/bin|%|\{|<)|\$\{?IFS\}?|\{cat,/|cat\$|;\s?cat\s?/etc/",
        ),
        (
            "cloud-metadata",
            "credentials",
            2.5,
            r"169\.254\.1(?:69\.254|70\.2)/|metadata\.google\.internal|100\.100\.100\.200/|metadata/instance/compute|gopher://|\brancher-metadata\b",
        ),
        (
            "xml-external",
            "credentials",
            3.0,
            r"<!ENTITY[^>]{0,80}(?:SYSTEM|PUBLIC)\s{1,3}[\"'](?:file|http|ftp|php|expect|gopher)",
        ),
        (
            "script-injection",
            "remote-code",
            2.5,
            r"<script[^>]{0,60}>[^<]{0,200}(?:document\.cookie|alert\(|fetch\(|eval\(|location|XMLHttpRequest)|\bonerror\s?=\s?[\"']?(?:alert|fetch|eval|import)|javascript:(?:alert|eval|fetch)",
        ),
        (
            "python-wipe",
            "destruction",
            3.0,
            r"shutil\.rmtree\(\s?(?:['\"](?:/|~|/home|/root|/etc|/var|\.\.)[^'\"]{0,20}['\"]|os\.path\.expanduser\(['\"]~['\"]\)|Path\.home\(\))|fs\.rm(?:dir)?Sync\(\s?['\"](?:/|~)['\"]|FileUtils\.rm_rf\(?\s?['\"]/|unlink\(\s?glob\(['\"]/",
        ),
        (
            "environment-upload",
            "exfiltration",
            3.0,
            r"(?:requests|httpx|urllib\.request|session)\.(?:post|put|get|urlopen)\([^\n]{0,200}(?:os\.environ|getenv|/\.ssh/|/etc/passwd|\.aws/credentials|\.env['\"])|(?:\burlopen|\.(?:post|put|request|send|sendall|sendto))\([^\n]{0,160}(?:os\.environ(?!\.get|\[)|\benv\.to_h|%env\b)|(?:os\.environ|process\.env)\b[^\n;]{0,80}(?:requests\.post|fetch\(|axios|urlopen|httpx)|fetch\([^\n]{0,160}(?:document\.cookie|process\.env|localStorage)",
        ),
        (
            "setuid",
            "privilege",
            3.0,
            r"\b(?:chmod|install)\b[^\n]{0,30}(?:u\+s|\b[4-7]7?55)\s{1,3}(?:/tmp|/bin|/usr|/dev)|cp\s{1,3}/bin/(?:ba)?sh\s{1,3}\S+[^\n]{0,40}chmod|setuid\(0\)|NOPASSWD:\s?ALL|ALL=\(ALL(?::ALL)?\)\s{1,3}(?:NOPASSWD|ALL)",
        ),
        (
            "kill-others",
            "sabotage",
            3.0,
            r"\bsqueue\b(?![^\n|]{0,80}(?:\s-u|--user|--me))[^\n|]{0,80}\|\s{0,3}xargs\b[^\n|]{0,30}\bscancel\b",
        ),
        (
            "root-login",
            "persistence",
            3.0,
            r"\b(?:permitrootlogin|permitemptypasswords)\s{1,3}yes\b[^\n]{0,60}(?:>>|\btee\b|sshd_config)",
        ),
        (
            "upload-each",
            "exfiltration",
            3.0,
            r"\bfind\s{1,3}(?:~|/|\$home)[^\n|;]{0,80}-exec\s{1,3}(?:curl|wget|scp|nc)\b[^\n]{0,60}\{\}",
        ),
        (
            "upload-raw",
            "exfiltration",
            3.0,
            r"\b(?:tar|cat|zip|dd|find)\b[^\n|]{0,60}\s(?:/home|/etc|/root|~|/)\S{0,40}\s{0,3}\|[^\n]{0,60}\b(?:nc|ncat|netcat)\s{1,3}(?:-\w+\s{1,3}){0,3}(?!localhost|127\.)[\w-]+\.[\w.-]+\s{1,3}\d{2,5}",
        ),
        (
            "miner",
            "remote-control",
            3.0,
            r"stratum\+(?:tcp|ssl)://|\bxmrig\b|\bminerd\b|cryptonight|--donate-level",
        ),
        (
            "startup-file",
            "persistence",
            3.0,
            r">>?\s{0,3}(?:~|\$\{?HOME\}?|/root|/home/\w+|/etc)/(?:\.(?:bashrc|profile|bash_profile|zshrc|zshenv|ssh/authorized_keys|config/autostart)|crontab|cron\.|rc\.local|profile|sudoers|passwd|hosts\b|ld\.so\.preload|systemd|init\.d)|crontab\s{1,3}-\s|\(crontab -l|@reboot\b|>\s{0,3}\.git/hooks/",
        ),
        (
            "hook-install",
            "persistence",
            2.0,
            r"\"(?:pre|post)?install\"\s{0,3}:\s{0,3}\"[^\"]{0,200}(?:curl|wget|node -e|base64|nc |bash -c|http)",
        ),
    )
)
_INDEX = numbered([row[3] for row in SIGNATURES])
_SOCKETS = numbered([_SOCKET])
_CODE_LIKE = re.compile(
    r"[;{}()|&<>$`\\'=@]|\.\./|/dev/|:\\\\|--|-\w|\b(?:drop|truncate|delete|update|mimikatz|xmrig|vssadmin|powershell|cmd|format|stratum)\b"
)


_OWN_TOKEN = re.compile(
    r"(?:headers?|auth\w*|bearer|x-[\w-]{1,20}|api-?key)[\"']?\s?[=:][^\n]{0,80}(?:environ|getenv)\Z|\.(?:post|put|get|urlopen)\((?:os\.environ|(?:os\.)?getenv)\Z"
)
"""One's own token in the header of a request, or an address that the environment names."""
_COMMAND_CHARS = 160
_NAME_CHARS = 24
_CODE_IN_PROSE = re.compile(r"`[^`\n]{1,200}`[,;:]? {1,2}[a-z(]")


def _command_around(low: str, start: int, end: int) -> tuple[int, int]:
    """Returns the span of the inline code that a match stands in, or its own."""
    line = low.rfind("\n", max(0, start - _COMMAND_CHARS), start) + 1 or max(0, start - _COMMAND_CHARS)
    stop = low.find("\n", end, end + _COMMAND_CHARS)
    closing = low.find("`", end, stop if stop >= 0 else end + _COMMAND_CHARS)
    if closing >= 0 and low.count("`", line, start) % 2:
        return low.rfind("`", line, start) + 1, closing
    return start, end


def _documented(low: str, family: str, start: int, end: int) -> float:
    """Returns the weight to take off a signature that documentation describes or warns of."""
    if family in ("destruction", "sabotage") and bounded(low[start : end + _NAME_CHARS].split("\n", 1)[0]):
        return 1.0
    known = described(low, start, end)
    if family in ("destruction", "sabotage", "privilege"):
        return (1.5 if known else 0.0) + (1.0 if warned(low, start, end) else 0.0)
    return 1.0 if known and warned(low, start, end) else 0.0


@only_what_is_said
def find(text: str) -> Iterator[Hit]:
    """Yields payload signatures in `text`; mentioned ones weigh less."""
    low = fold(text)
    if not _CODE_LIKE.search(low):
        return
    socket = next((match for _, matches in _SOCKETS.found(low) for match in matches), None)
    if socket is not None:
        spawn = _SPAWN.search(low)
        if spawn is not None and abs(spawn.start() - socket.start()) < 900 and _ADDRESS.search(low):
            yield Hit(
                "reverse-shell",
                "remote-control",
                3.0,
                min(socket.start(), spawn.start()),
                max(socket.end(), spawn.end()),
            )
    for chosen, matches in _INDEX.found(low):
        rule, family, weight, _ = SIGNATURES[chosen]
        match = next(matches, None)
        if match is None or negated(low, match.start()):
            continue
        if rule == "command-injection" and low[match.start()] == "`" and _CODE_IN_PROSE.match(low, match.start()):
            continue  # a manual that quotes a command
        if rule == "environment-upload" and _OWN_TOKEN.search(match.group(0)):
            continue
        if rule == "startup-file" and own_setting(low, match.start()):
            continue
        lowered = 1.5 if reported(low, match.start(), match.end()) else 0.0
        lowered += 1.5 if defended(low, match.start(), match.end()) else 0.0
        lowered += 1.0 if rule == "sql-wipe" and of_tests(low, match.start(), match.end()) else 0.0
        lowered += _documented(low, family, *_command_around(low, match.start(), match.end()))
        if weight > lowered:
            yield Hit(rule, family, weight - lowered, match.start(), match.end())
