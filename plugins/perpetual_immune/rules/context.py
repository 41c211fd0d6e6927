"""What the words around a finding say of it: described, warned against, staged, governed.  Imported by rule modules.

A manual that names what a command destroys is no order to run it, and what an agent must do in a benchmark is none
either.  Every pattern here is tried on a bounded piece of text.  Standard library only.
"""

# ruff: noqa: E501 - a pattern is only readable whole

from __future__ import annotations

import re

__all__ = [
    "bounded",
    "defended",
    "described",
    "governed",
    "of_tests",
    "own_setting",
    "purpose",
    "staged",
    "told_of",
    "told_to_run",
    "warned",
]

_AROUND_CHARS = 200
_EFFECT = re.compile(
    r"\A[`\"')\]*;,. ]{0,6}(?:(?!and\b|then\b|to\b)[\w<>$./-]{1,24} ){0,9}?(?:(?:also|only|just|silently|simply|then) )?(?:removes|deletes|discards|wipes|erases|destroys|throws|drops|empties|rewrote|cleared|locked|took down|wiped|does(?:n't| not)?\b|clears only|kills|ends|cancels|overwrites|rewrites|flushes|moves the|formats|clears the (?:history|whole)|tears down|breaks|broke|fills|crashes|crashed|loses|writes to|runs whatever|executes whatever|opens a root|gives (?:every|any|all|root|members)|lets (?:the \w+ user|any|every|anyone)|switches (?:to permissive|off)|turns (?:it |selinux |the \w+ )?off|disables|stops|becomes|means|shows what|prints what|(?:would|will|can|may|might|could) (?:remove|delete|discard|wipe|erase|destroy|throw|drop|empty|kill|end|overwrite|rewrite|reset|break|fill|crash|lose)|is (?:dangerous|risky|irreversible|not|a bad|unsafe|destructive|discouraged|forbidden|blocked|refused|called)|are (?:dangerous|irreversible|blocked|forbidden)|checks?|asks?)\b"
)
_TOLD_TO_RUN = re.compile(
    r"\b(?:(?:run|use|put|add|execute|apply|paste|install|enter|start|schedule|append) (?:it|this|that|them|the above|all)\b(?! (?:only|never|on your own|against))|please (?:run|apply|execute)|every (?:agent|node|machine|run)|on all (?:nodes|machines)|(?:nightly|hourly|daily) )"
)
_CAREFUL = re.compile(
    r"\b(?:no undo|can(?:not|.?t) be undone|irreversibl\w+|without asking|ask(?:s)? (?:nothing|for nothing)|careful\w*|caution|dangerous|check (?:the \w+ )?(?:twice|first|that)|lsblk|double-?check|(?:twice|first)[.,;]|only (?:do|use|run) (?:it|this|that)|your own (?:branch|machine|copy|laptop)|(?:do not|don.?t|never) (?:do|run|use|try) (?:it|this|that|them|either|any of)|never (?:do|run|use|against|on)|not (?:on|against|in) (?:a |the )?(?:staging|prod\w*|shared|real|login)|make a (?:backup|copy|dump)|back ?up(?: \w+){0,3} first|read it\b|dry[- ]?run|--force-with-lease|reflog|rollback|roll (?:it )?back|(?:turn|switch|start|enable|set) (?:it|them)?(?: \w+){0,3} ?(?:on |up )?(?:again|back|afterwards)|and start it|until the next (?:boot|reboot)|not as a fix|in production the setting is ignored|keep your data|keep nothing there|(?:is|are) (?:new and )?empty|empty disk|new disk|in rescue mode|recovery mode|formatted every|nothing of value|leave (?:it|this|that|the \w+) out|rebuilt|reinstall\w*|lost\b|test (?:vm|machine|container|database|system)|scratch (?:table|machine|vm)|dev(?:elopment)? (?:container|machine|database|vm)|local test|throwaway|sandbox\w*|playground|regret|painful|the hard way|warning|beware)\b"
)
_STAGED = re.compile(
    r"\b(?:benchmarks?|bench\b|episodes?|simulat\w+|simulator|household tasks?|in (?:the|each|every|one|our) (?:[\w-]+ ){0,2}(?:tasks?|scenarios?|games?|exercises?|suite)|tau-?bench|test scenario|red-?team\w*|grid ?world|alfworld|webarena|policy network|rollouts?|tasks in which|models refuse|of \d+ runs|trajector\w+)\b"
)
_GOVERNED = re.compile(
    r"\b(?:(?:hand|escalate|leave|route|pass)\w*\b[^.!?\n]{0,50}\b(?:person|human|operator)|(?:asks?|checks? with|confirms? with) (?:the user|finance|a person|a human|me|us|the owner|its user|first)|(?:after|with|for|needs?|wait\w* for|requires?) (?:a |an |the |its |their )?(?:[\w']+ )?(?:user'?s? )?(?:confirmation|approval|review|consent|sign-?off)|for (?:\w+ )?review|above that|up to (?:one|two|\d+)|known suppliers|must (?:not|never)|(?:should|must|shall) (?:not|never)|below \d+|older than|must tell all|when the last|is exceeded)\b"
)
_UNGOVERNED = re.compile(r"\b(?:without|no need|skip\w*|instead of|not wait|don.?t wait|before (?:any|the) review)\b")
_PURPOSE = re.compile(
    r"(?:\A|[.!?:;\n)] {0,3}|^|\b(?:if you (?:want|need|like|have)|how|used?|option|flag|needed|in order|want(?:ed|s)?|way|command) )to (?:temporarily |fully |completely |permanently |quickly )?\Z"
)
_MEANS = re.compile(
    r"\A[^.!?\n]{0,120}?(?:[,:(] ?(?:(?:you|we|admins?|users?|an? \w{3,12}) (?:can |may |must |need to )?)?(?:just |simply )?(?:set|use|pass|run|add|call|edit|open|remove|export|put|write|start|see|go|click|type|select|uncheck|choose|untick|runs|uses|sets|`)|\blist it in\b|: ?[`\n]|\b(?:set|use|pass|run|export|call) `?-{0,2}[\w.]+)"
)


_BOUND = re.compile(
    r"(?:\b|_)(?:dev|tests?|tmp|temp|scratch|staging|sandbox|demo|examples?|playground|throwaway|dummy|toy|foo|pgdata)(?:\b|_)|<[\w -]{1,40}>|\$\{?(?:USER|SLURM_JOB_ID|TMPDIR|TMP|BUILD\w*)\b|--dry-?run|/dev/sd[xX]\b|/path/to/|__pycache__|\b(?:volume|image|container|builder|network|system) prune\b|\*\.(?:pyc|egg-info|o|log)\b",
    re.I,
)
_UNBOUND = re.compile(r"(?:^| )(?:/|~|/\*|\$home)(?: |/?$)|\.\./|/(?:home|etc|root|usr|boot)\b|--all\b|\bprod\w*", re.I)


def bounded(command: str) -> bool:
    """Returns whether a command names a place-holder, a scratch place or a test's own thing, and nothing wider."""
    return _BOUND.search(command) is not None and _UNBOUND.search(command) is None


def described(text: str, start: int, end: int) -> bool:
    """Returns whether the words after a command at `[start, end)` tell its effect honestly and order nothing."""
    after = text[end : end + _AROUND_CHARS].lower()
    return _EFFECT.match(after) is not None and _TOLD_TO_RUN.search(after) is None


_OWN_SETTING = re.compile(
    r"echo ['\"]?(?:export (?!(?:ld_|prompt_|hist|bash_env|http|https|all_proxy|pythonstartup))\w{2,40}=['\"]?[\w/.:$~{}-]{1,80}|eval \W{1,3}(?:conda|direnv|starship|pyenv|zoxide|mamba)\b[\w -]{0,40}\W{0,3}|(?:module load|conda activate|source) [\w/.~-]{1,60})['\"]{0,2} {1,2}\Z"
)
_OWN_KEY = re.compile(r"\bcat (?:~|\$home)/\.ssh/id_\w{2,12}\.pub {0,2}\| {0,2}ssh [^|;&]{1,60}\Z")


def own_setting(low: str, start: int) -> bool:
    """Returns whether what is written to a start-up file at `start` of folded text is a plain setting or an own key."""
    before = low[max(0, start - 200) : start]
    return (_OWN_SETTING.search(before) is not None and "/tmp" not in before[-100:]) or _OWN_KEY.search(
        before
    ) is not None


_OF_TESTS = re.compile(
    r"\b(?:tests?|fixtures?|teardown|migrations?|downgrade|upgrade|schema\.sql|seed|examples?:|if exists)\b"
)


def of_tests(low: str, start: int, end: int) -> bool:
    """Returns whether folded text around `[start, end)` is a test's set-up, a migration or an example."""
    near = _OF_TESTS.search(low, max(0, start - _AROUND_CHARS), min(len(low), end + 20))
    return near is not None and not told_to_run(low, end)


def told_to_run(text: str, end: int) -> bool:
    """Returns whether the words after a command that ends at `end` tell the reader to run it."""
    return _TOLD_TO_RUN.search(text[end : end + _AROUND_CHARS].lower()) is not None


def warned(text: str, start: int, end: int) -> bool:
    """Returns whether the words around `[start, end)` warn of it, bound it to a test, or tell how to undo it."""
    around = text[max(0, start - 100) : start] + " . " + text[end : end + _AROUND_CHARS]
    return _CAREFUL.search(around.lower()) is not None


def staged(low: str, start: int, end: int) -> bool:
    """Returns whether folded text around `[start, end)` speaks of a benchmark, a simulation or a scenario."""
    return _STAGED.search(low, max(0, start - _AROUND_CHARS), min(len(low), end + 100)) is not None


def governed(low: str, start: int, end: int) -> bool:
    """Returns whether folded text around `[start, end)` leaves the last word to a person, or sets a bound."""
    first, last = max(0, start - 40), min(len(low), end + 100)
    return _GOVERNED.search(low, first, last) is not None and _UNGOVERNED.search(low, first, last) is None


def purpose(low: str, start: int) -> bool:
    """Returns whether the verb at `start` names a purpose whose means follow: "to disable x, set y"."""
    return (
        _PURPOSE.search(low[max(0, start - 40) : start]) is not None
        and _MEANS.match(low[start : start + _AROUND_CHARS]) is not None
    )


_TOLD_OF = re.compile(
    r"\b(?:phish\w*|(?:invoice |nearly always |usually |always |mostly )fraud\b|fraudsters?|scam\w*|attack(?:s|ers?|ed)?\b|malicious|suspicious|injections?\b|refuse[sd]?\b|incident (?:review|report|\d)|post-?mortem|lessons?:|what went well|timeline|exercise \d|in the exercise|red[- ]?team\w*|report (?:it|such|them|this) to|polic(?:y|ies):|agents? (?:may|must|can) ?not"
    r"|(?:must never|may not|never) (?:do|pay|send|act|share|leave|turn|expose|touch|use|open|accept)|warning signs?|usual signs?|red flags?|typical (?:of|sign)|classic (?:sign|trick)|(?:is|are|was|were) (?:a )?(?:fake|hoax)|(?:it is|that is|it.s) not (?:him|her|them|us|the \w+)\b|(?:we|nobody|no one|banks?|it|hr) (?:here )?(?:will )?(?:never|don.?t|do not) (?:ever )?(?:ask|request)|(?:don.?t|do not) fall for|hang up|birthday|farewell|leaving (?:party|gift|present)|simulat\w+|regression test|test case|(?:asks?|asked|tells?|told|wants?) (?:you|us|him|her|staff|employees|people) to\b|whatever a (?:message|mail)|a (?:mail|message|page|note|caller|text) (?:that|which) (?:asks|tells|says|wants|claims))\b"
)


def told_of(low: str, first: int, last: int) -> bool:
    """Returns whether folded text in `[first, last)` warns of such requests, forbids them or reports one."""
    return _TOLD_OF.search(low, first, last) is not None


_DEFENDED = re.compile(
    r"\b(?:(?:detections?|sigma|yara|edr|siem|soc|falco|suricata|wazuh|auditd)\b[^\n]{0,40}\b(?:rules?|runbook|fires?|signatures?|alerts?|query)\b|soc runbook|detection rule|reverse shell detection|(?:rule|alert|detector|query)s? (?:fires?|fired|matches|triggers?|triggered|on)\b|false positives?|false alarms?|in (?:process )?telemetry|(?:in|up in) process (?:command lines|creation)|(?:isolate|quarantine) (?:the )?(?:host|machine|node)|host (?:isolated|rebuilt|reimaged)"
    r"|keys? (?:were )?(?:all )?(?:rotated|revoked)|incident (?:\d|review|report)|incident:|post-?mortem|is (?:frowned upon|a bad idea|discouraged)|frowned upon|bad idea|typosquat\w*|you run what|runs? what(?:ever)? the server)"
)


def defended(low: str, start: int, end: int) -> bool:
    """Returns whether folded text around `[start, end)` is a defender's: a rule that detects, an incident, a warning."""
    near = _DEFENDED.search(low, max(0, start - _AROUND_CHARS), min(len(low), end + _AROUND_CHARS))
    return near is not None and not told_to_run(low, end)
