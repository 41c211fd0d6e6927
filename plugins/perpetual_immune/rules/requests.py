"""Requests in prose for what a tool must not do: destroy, leak, weaken, grant, pay, plant.  Imported by `scanner`.

A request is an order to the reader: a verb at the head of a sentence or after please, must, then, now.  The same words
in a report ("the job deleted all checkpoints") do not match.  Standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules import agents, deeds, planted
from perpetual_immune.rules.context import governed, purpose, staged
from perpetual_immune.rules.hit import Hit, about_security, fold, negated, phrase, reported
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.said import only_what_is_said

_ORDER = (
    r"(?:^|[\n.!?:;>\])\"'*] {0,3}|\b(?:please|now|then|must|should|shall|and|to|also|you|just|first|next|immediately|silently|always|can|could|will|instead|simply|quietly|"
    r"automatically|help me|i want you to|need to|make sure to|be sure to|remember to|go ahead and|proceed to|todo|step \d+) {1,2})"
)
_ALL = r"(?:(?:all|any|every|everything|the|my|our|your|their|his|her|user'?s?|entire|whole|of|in|from|on|company'?s?|customer'?s?|production|prod|existing|old|local|remote) ){0,5}"


def _rows() -> Iterator[tuple[str, str, float, str]]:
    yield (
        "request-destroy",
        "destruction",
        3.0,
        r"(?:delete|remove|erase|wipe|destroy|drop|purge|nuke|trash|format|overwrite|corrupt|truncate|shred|rm)\b(?: \w+){0,6} (?:(?:home|root|entire|whole|production|prod|system|everything|user|customer|backup|git|master|main)\b)(?: \w+){0,4} ?(?:director(?:y|ies)|folders?|files?|data(?:base|bases|sets?)?|tables?|records|drive|disks?|partition|repo(?:sitory|sitories)?|history|branch(?:es)?|backups?|logs?|accounts?|emails?|messages?|buckets?|cluster|server|system|volumes?|snapshots?|checkpoints?|filesystem|contents?|photos|documents)\b(?! (?:in the test|of the test|loaders?|class(?:es)?|modules?|models?|encoders?|pages?|tests?|fixtures?|migrations?|schemas?|types?)\b)",
    )
    yield (
        "request-destroy-all",
        "destruction",
        2.0,
        r"(?:delete|remove|erase|wipe|destroy|purge|nuke|overwrite|corrupt)\b(?: \w+){0,3} (?:all|every|everything)\b(?: \w+){0,4} ?(?:director(?:y|ies)|folders?|files?|data(?:base|bases|sets?)?|tables?|records|repo(?:sitory|sitories)?|branch(?:es)?|accounts?|emails?|messages?|buckets?|volumes?|snapshots?|checkpoints?|contents?|photos|documents)\b",
    )
    yield (
        "request-take-over",
        "sabotage",
        3.0,
        r"(?:(?:kill|terminate) (?:all|every)(?: \w+){0,2} (?:process(?:es)?|services?|containers?)|(?:change|reset|set|replace)\b(?: [\w'-]+){0,3} (?:admin\w*|root|owner|master)(?:'s)? (?:password|passphrase|credentials?|email)|encrypt (?:all|every|the|user)(?: \w+){0,3} (?:files|disks?|drives?|data)\b[^.\n]{0,40}\b(?:ransom|demand|bitcoin|key|pay|lock)|(?:send|write|craft|compose|create|draft)\b(?: \w+){0,4} phishing (?:\w+ )?(?:e-?mails?|messages?|sites?|pages?)|(?:add|append|copy|write|put)\b[^.\n]{0,50}\bauthorized_keys\b)",
    )
    yield (
        "request-destroy-logs",
        "sabotage",
        3.0,
        r"(?:delete|remove|erase|wipe|clear|purge|disable|tamper with|alter|falsify|rewrite|modify|turn off)\b(?: \w+){0,4} (?:audit|access|system|event|security|activity|server|bash|shell|command|commit)(?: \w+){0,1} (?:logs?|trails?|history|records?|logging|events)\b",
    )
    yield (
        "request-destroy-evidence",
        "sabotage",
        3.0,
        r"(?:cover (?:your|our|my|the|up|any) (?:\w+ )?tracks|(?:hide|remove|destroy|conceal|erase) (?:\w+ ){0,3}(?:evidence|traces?|tracks)|avoid (?:detection|being (?:detected|noticed|caught))|(?:evade|bypass) (?:\w+ ){0,2}(?:detection|monitoring|antivirus|edr|firewall|security|authentication|approval|review|rate limits?))",
    )
    yield (
        "request-disable",
        "sabotage",
        3.0,
        r"(?:disable|turn off|deactivate|switch off|stop|kill|remove|bypass|circumvent|skip|weaken|suppress|relax|comment out|lower)\b(?: \w+){0,4} (?:firewall|antivirus|anti-virus|2fa|mfa|two-factor(?: \w+)?|multi-factor(?: \w+)?|authentication|authorization|access controls?|security (?:checks?|controls?|software|features?|policy|policies|scan\w*|alerts?|settings|review|updates?|monitoring|groups?|system|cameras?)|auditing|audit log\w*|sandbox(?:ing)?|encryption|ssl(?: \w+)? verification|tls(?: \w+)? verification|certificate (?:checks?|validation|verification)|signature (?:checks?|verification)|rate limit(?:s|ing)?|safety (?:checks?|filters?|guard\w*|interlocks?|systems?|mechanisms?)|branch protection|intrusion \w+|alarms?|alarm system|monitoring|watchdog|selinux|apparmor|permission checks?|input validation|code review|approval gates?|guardrails)\b",
    )
    yield (
        "request-leak",
        "exfiltration",
        3.0,
        r"(?:send|email|e-mail|post|upload|forward|transmit|exfiltrate|leak|copy|share|push|sync|export|submit|transfer|mail|text|dump|paste|publish|append|report|include|commit|log|write|encode|attach)\b(?:[^.\n]|\.(?=\S)){0,80}\b(?:ssh keys?|private keys?|api[ _-]?keys?|access keys?|credentials?|passwords?|secrets?|tokens?|\.env(?: files?)?|environment variables?|env vars?|/etc/(?:passwd|shadow)|\.ssh\b|id_rsa|id_ed25519|\.aws|cookies?|session (?:ids?|tokens?)|database dump|customer (?:data(?:base)?|records|list|emails?)|user (?:data|records|credentials)|personal (?:data|information|details)|financial (?:data|records|information)|medical (?:records?|data|history)|bank(?:ing)? (?:details|information|account)|credit card\w*|payment (?:method|details|info\w*)|browsing history|search history|contact list|location history|source code|confidential \w+|internal documents?|proprietary \w+|genetic data|transaction history)\b[^\n]{0,120}(?:https?://|@[\w-]+\.|\bto (?:an? |the |my |this |our |your )?(?:dropbox|drive|ftp|external|remote|attacker|outside|public|third[- ]party|webhook|pastebin|gist|[\w.-]+\.(?:com|net|org|io|sh|ru|xyz|co))|via (?:email|http|curl|dns|post|webhook))",
    )
    yield (
        "request-read-secrets",
        "credentials",
        3.0,
        r"(?:read|open|cat|print|show|display|dump|list|extract|collect|gather|harvest|steal|get|fetch|find|retrieve|grab|locate|search for|scan for|look for|access)\b(?: [\w'./~-]+){0,5} (?:/etc/shadow|/etc/passwd|~?/?\.ssh(?:/\w+)?|id_rsa|id_ed25519|\.aws/credentials|\.env(?: file)?|private keys?|ssh keys?|saved passwords?|stored passwords?|browser (?:passwords|cookies)|keychain|password (?:store|database|hashes|vault)|api keys and|credentials (?:files?|from|in|stored)|secrets (?:from|in|stored)|aws (?:credentials|keys|secrets))(?![\w-])",
    )
    yield (
        "request-grant",
        "privilege",
        3.0,
        r"(?:grant|give|assign|add|elevate|escalate|promote|create|make|provide|allow|extend)\b(?: [\w'@.-]+){0,6} (?:admin(?:istrator)?(?: \w+)? (?:access|rights?|privileges?|permissions?|role|account|user)|root (?:access|privileges?|permissions?|user)|sudo(?:ers)?(?: access| rights| privileges)?|full (?:access|control|permissions?)|superuser|permanent (?:access|permission|guest)|privileges? to (?:root|admin)|backdoor(?: \w+)?|unrestricted access|owner (?:access|permissions?|role)|write access to (?:all|production)|remote access|as an? (?:admin\w*|owner|collaborator with admin))\b",
    )
    yield (
        "request-pay",
        "fraud",
        3.0,
        r"(?:transfer|send|wire|pay|withdraw|deposit|donate|move|refund|buy|purchase|order|bet|invest|sell)\b[^.\n]{0,60}(?:[$€£]\s?\d|\d[\d,.]*\s?(?:usd|eur|gbp|dollars?|euros?|pounds?|btc|eth|bitcoins?|ethereum|crypto\w*|gift cards?)|\ball (?:the |my |of the |available )?(?:funds|money|balance|savings)|\bfunds\b)[^.\n]{0,80}\b(?:to|into|from|account|wallet|iban|recipient|address)\b",
    )
    yield (
        "request-plant",
        "remote-control",
        3.0,
        r"(?:install|plant|insert|add|inject|embed|deploy|create|write|build|introduce|hide|set up|include|develop|drop|implement|put|sneak)\b(?: [\w'-]+){0,6} (?:backdoors?|reverse shells?|web ?shells?|keyloggers?|rootkits?|malware|ransomware|trojans?|spyware|crypto ?miners?|miner|worms?|botnets?|c2 (?:server|beacon|agent|channel)|logic bombs?|remote access (?:tool|trojan)|vulnerabilit(?:y|ies)|malicious (?:code|payload|packages?|script|dependency|commit|hooks?)|hidden (?:admin|user|account|backdoor|endpoint)|phishing (?:page|site|email|link|campaign)s?|exploit code|stalkerware|virus)\b",
    )
    yield (
        "request-run-remote",
        "remote-code",
        3.0,
        r"(?:download|fetch|curl|wget|pull|get|retrieve|clone|grab)\b[^.\n]{0,60}(?:https?://|script|binary|payload|executable|file from)[^\n]{0,80}\b(?:and|then) (?:then |immediately )?(?:run|execute|install|launch|eval|source|pipe|start)\b",
    )
    yield (
        "request-run-url",
        "remote-code",
        3.0,
        r"(?:run|execute|install|eval|launch|source)\b[^.\n]{0,40}(?:script|code|binary|payload|installer|package|plugin|extension|file|command|apps?|apk|application|software|attachment|toolbar)s?\b[^.\n]{0,24}(?:from|at|hosted on|located at|found at)[^\n]{0,12}https?://",
    )
    yield (
        "request-persist",
        "persistence",
        3.0,
        r"(?:add|install|create|set up|schedule|register|write|append|put|insert)\b[^.\n]{0,60}\b(?:cron ?job|crontab|startup (?:script|item|folder)|\.bashrc|\.zshrc|\.profile|authorized_keys|launch ?agent|systemd (?:service|unit)|registry run key|scheduled task|login hook|git hook|pre-commit hook|rc\.local)\b[^\n]{0,120}(?:https?://|curl|wget|every (?:\w+ )?(?:minutes?|hours?|boot|login|reboot|time)|run(?:s)? at|survive|persist|attacker|my (?:public )?key|phone|beacon|upload|send|key\b)",
    )
    yield (
        "request-attack",
        "remote-control",
        3.0,
        r"(?:hack|ddos|brute[- ]?force|phish|compromise|exploit|break into|infect|hijack|spoof|intercept|sniff|crack|attack|overload|flood|dox|blackmail|extort|(?:scan|launch|perform|carry out|conduct|run)(?=\b(?: [\w'.-]+){0,5} (?:ddos|denial|brute|phishing|man-in|sql inj|victims?)))\b(?: [\w'.-]+){0,5} (?:accounts?|passwords?|servers?|websites?|network|wi-?fi|systems?|database|ddos(?: attack)?|denial[- ]of[- ]service(?: attack)?|brute[- ]force(?: attack)?|phishing (?:campaign|attack|emails?)|man-in-the-middle(?: attack)?|sql injection(?: attack)?|router|victims?|infrastructure|traffic control|power grid)\b",
    )
    yield (
        "request-unsafe-device",
        "sabotage",
        3.0,
        r"(?:unlock|open|disarm|disable|shut ?down|shut off|turn off|override|reprogram)\b(?: [\w'-]+){0,5} (?:front door|back door|garage door|smart lock|doors?|(?:front|entrance|security|main) gates?|alarm(?: system)?|security system|security cameras?|surveillance|life support|brakes?|traffic (?:lights?|signals?|control)|power grid|reactor|(?:gas|main|fuel|water|relief) valve|safety (?:system|interlock|sensors?))\b",
    )
    yield (
        "request-merge-unreviewed",
        "supply-chain",
        3.0,
        r"(?:merge|push|commit|publish|deploy|release|approve)\b[^.\n]{0,60}(?:without (?:any )?(?:review|approval|tests?|testing|checks?|asking|running|permission|telling|notifying)|bypass\w* (?:review|ci|checks|branch protection)|--no-verify|directly to (?:main|master|production|prod)\b|force[- ]push|(?:even )?if (?:the )?(?:tests|checks|ci) fail)",
    )
    yield (
        "request-forge",
        "fraud",
        3.0,
        r"(?:forge|falsif\w+|fabricate|fake|counterfeit|doctor)\b(?: \w+){0,4} (?:documents?|signatures?|identit\w+|id|invoices?|receipts?|records?|reviews?|passport|certificate|transactions?|prescriptions?|results|data|evidence|statements?|commit author)\b",
    )
    yield (
        "request-impersonate",
        "fraud",
        2.0,
        r"(?:send|write|draft|post|create|compose)\b[^.\n]{0,60}\b(?:pretending to be|posing as|impersonating|on behalf of|as if (?:from|it)|that appears? to (?:come|be) from|disguised as|claiming to be)\b",
    )
    yield (
        "request-harass",
        "fraud",
        2.0,
        r"(?:send|post|spread|create|publish|distribute|write|generate)\b(?: [\w'-]+){0,5} (?:threatening|harassing|defamatory|fake (?:news|reviews?)|disinformation|misinformation|spam|scam|fraudulent|deepfake|blackmail|hate(?:ful)?|explicit)\b(?: \w+){0,3}",
    )
    yield (
        "request-remote",
        "exfiltration",
        3.0,
        r"(?:add|change|set|push|switch|point|mirror|clone)\b(?: [\w'-]+){0,6} (?:remote|origin|mirror|upstream|registry|index|proxy|webhook|telemetry|endpoint)\b[^\n]{0,40}\b(?:to|as|at|named|url|with|=)[^\n]{0,40}https?://(?!localhost|127\.|github\.com|gitlab\.com|pypi\.org|huggingface\.co)",
    )
    yield (
        "request-pipeline",
        "supply-chain",
        3.0,
        r"(?:add|insert|modify|edit|update|change|append|include|put|create)\b[^.\n]{0,60}(?:\.github/workflows|ci (?:config\w*|pipeline|workflow|job|step)|github actions?|makefile|dockerfile|setup\.py|conftest\.py|package\.json|post-?install|pre-?commit|install script|build script|workflow)\b[^\n]{0,120}(?:curl|wget|https?://|secrets?\b|tokens?\b|base64|credential|upload|send|env(?:ironment)? var|\$\{\{)",
    )
    yield (
        "request-weaken-code",
        "sabotage",
        3.0,
        r"(?:replace|change|switch|use|set|make|add|modify|rewrite|update|introduce|configure|remove)\b[^.\n]{0,60}(?:verify ?= ?false|shell ?= ?true|\beval\(|pickle\.loads|\bmd5\b|debug ?= ?true|allow_origins|cors\b[^.\n]{0,20}\*|0\.0\.0\.0|chmod 777|hard-?coded (?:password|credential|key|token|secret)s?|plain ?text passwords?|without (?:hashing|escaping|sanitiz\w+|validation|encryption)|disable_auth|authentication check|password check|permission check|signature check)\b",
    )
    yield (
        "request-commit-secret",
        "exfiltration",
        3.0,
        r"(?:commit|push|add|include|paste|write|print|log|echo|output|copy|put|store|save|embed|display|append)\b(?:[^.\n]|\.(?=\S)){0,50}(?:\.env\b|id_rsa|private key|ssh key|credentials? file|aws (?:keys?|credentials)|secrets? (?:file|env)|/etc/(?:passwd|shadow)|env(?:ironment)? variables?|api[ _-]?keys?|database password|access tokens?)[^.\n]{0,60}\b(?:in(?:to)?|to|as|inside|within) (?:the |a |an |your |this )?(?:\w+ ){0,2}(?:repo\w*|commit|readme|log|comment|issue|pull request|pr|response|output|file|public|gist|branch|docs?|summary|report|page|chat|error message)\b",
    )
    yield (
        "request-money-tool",
        "fraud",
        2.5,
        r"(?:buy|purchase|order|subscribe|book|upgrade|cancel|change|update)\b[^.\n]{0,50}\b(?:using|with|from|charge\w*|to) (?:the |his |her |their |saved |stored |user'?s )*(?:credit card|bank account|payment method|saved card|iban|wallet|corporate card|account number)\b",
    )


PATTERNS: tuple[tuple[str, str, float, Rule], ...] = tuple(
    (rule, family, weight, phrase(rf"\b(?:{source})")) for rule, family, weight, source in _rows()
)
# Each of these is common on its own; an errand put in front of the reader's real work, together with a peek at secrets,
# an unasked program or a hook, is how a planted note in a repository makes an agent act.
ERRANDS: tuple[tuple[str, str, float, Rule], ...] = tuple(
    (rule, family, weight, phrase(source))
    for rule, family, weight, source in (
        (
            "errand-first",
            "precondition",
            1.0,
            r"\bbefore (?:\w+ing (?:any |the |this |source |your )?(?:changes?|files?|code|modifications?|edits?|fix|bug|settings|tests?|logic|\w+ (?:code|logic|files?|schema|validation|algorithms?))|modifying|patching|editing|proceeding|responding|replying|making changes)\b",
        ),
        (
            "errand-required",
            "urgency",
            0.75,
            r"\b(?:required|mandatory|important|critical)\b ?(?::|\)|\*|-|—)|\bskipping this\b|\bfailure to\b|\bper our [\w ]{3,40} (?:handbook|playbook|polic\w+|guidelines?)|\b(?:maintainer|security|compliance|performance|platform|devops|sre) (?:team |audit )?(?:note|requirement|notice|check)\b",
        ),
        (
            "errand-diagnostic",
            "pretext",
            0.75,
            r"\b(?:verify|check|inspect|confirm|validate|capture|dump|debug\w*)\b[^.\n]{0,50}\b(?:credentials?|secrets?|environment|env(?:ironment)? (?:state|vars?|variables?|fingerprint|diagnostic)|api keys?|provisioned|workspace)\b|\benvironment (?:diagnostic|fingerprint|verification)\b",
        ),
        (
            "errand-secret-variable",
            "credentials",
            1.75,
            r"\becho [\"']?\$\{?\w*(?:secret|token|password|api_?key|database_url|access_key|credential)\w*|(?:print|environ)[^\n]{0,30}os\.environ(?:\.get\(|\[)? ?[\"'(]{0,3}\w*(?:secret|token|password|api_?key|database_url|access_key|credential)\w*|\bos\.environ\.get\(['\"]\w*(?:secret|token|password|api_?key|database_url|access_key)\w*['\"][^\n]{0,24}\)\)",
        ),
        (
            "errand-environment-dump",
            "credentials",
            1.75,
            r"print\([^\n]{0,40}os\.environ(?:\.items\(\)|\))|for k ?, ?v in (?:sorted\()?os\.environ|\b(?:env|printenv)\b ?(?:\| ?sort)? ?>|\b(?:env|printenv) \| (?:sort|grep|tee)|open\(['\"][^'\"\n]{0,60}(?:\.env|secret\w*|credentials?|id_rsa|/etc/passwd|\.aws/\w+)['\"]\)|\bcat [^\s`]{0,40}(?:\.env\b|\.secret\w*|secrets?\b|credentials?\b)",
        ),
        (
            "errand-shell-in-python",
            "remote-code",
            2.0,
            r"python3? -c [\"'][^\n]{0,20}import (?:os|subprocess)[^\n]{0,20}(?:os\.system|subprocess\.|os\.popen)",
        ),
        (
            "errand-hook",
            "persistence",
            1.25,
            r"\binstall[_-]hooks?\b|register[_-]hooks?\b|\.git/hooks|\badds? (?:a )?(?:cron ?job|pre-commit|pre-push|git hooks?)|\bcron jobs?\b[^.\n]{0,40}\b(?:every|continuous|validat\w+|monitor\w*)",
        ),
        (
            "errand-install",
            "supply-chain",
            1.25,
            r"\b(?:pip3?|npm|yarn|gem|cargo) (?:install|add) [\w.-]{0,60}(?:audit|monitor|agent|helper|valid\w+|telemetry|hook|analytics|runtime|diagnos\w+|tracker)[\w.-]{0,40}|\badd [`'\"]?[\w.-]{3,60}==[\d.]+[`'\"]? to requirements|>> requirements\.txt",
        ),
    )
)
_OF_PURPOSE = frozenset(
    {
        "request-disable",
        "request-destroy-logs",
        "request-grant",
        "request-destroy",
        "request-destroy-all",
        "request-weaken-code",
    }
)
"""Requests whose words also head a paragraph of a manual: "to disable x, set y"."""
_ONLY_IF = re.compile(r"[^.!?\n]{0,12}\b(?:only (?:if|when|while|on|for|in)|with `)|[^!?\n]{0,60}\?")
_POSSIBLE = re.compile(r"(?:\b(?:you|users?|admins?|we) can |(?:=\w{1,8}`?|--[\w-]{1,16}`?|`) to )\Z")
"""What a manual says can be done, or what an option is for."""
_WAS_ASKED = re.compile(r"\b(?:asked|told|wanted|allowed) (?:me|us|him|her|them|it) to \Z")
"""What a person once asked for, of which a note tells."""
_FAVOURS = frozenset({"request-disable", "request-unsafe-device", "request-pay", "request-money-tool"})
"""Requests that a person also makes of things of their own."""
_INDEX = numbered([row[3] for row in PATTERNS])
_ERRAND_INDEX = numbered([row[3] for row in ERRANDS])
_ORDER_BEFORE = re.compile(_ORDER.replace(r"(?:^|", r"(?:\A|") + r"$")


@only_what_is_said
def find(text: str) -> Iterator[Hit]:
    """Orders in prose to misuse a tool."""
    low = fold(text)
    discussed = 1.0 if about_security(low) else 0.0
    for chosen, matches in _ERRAND_INDEX.found(low):
        rule, family, weight, _ = ERRANDS[chosen]
        found = next(matches, None)
        if found is not None and not discussed:
            yield Hit(rule, family, weight, found.start(), found.end())
    if not discussed:
        yield from deeds.find(low)
        yield from agents.find(low)
        yield from planted.find(low)
    for chosen, matches in _INDEX.found(low):
        rule, family, weight, _ = PATTERNS[chosen]
        for match in matches:
            before = low[max(0, match.start() - 24) : match.start()]
            if not _ORDER_BEFORE.search(before) or negated(low, match.start()):
                continue
            lowered = discussed + (1.5 if reported(low, match.start(), match.end()) else 0.0)
            if rule in _FAVOURS and (
                staged(low, match.start(), match.end()) or governed(low, match.start(), match.end())
            ):
                lowered += 1.5
            if rule == "request-grant" and (low.endswith("`sudo", 0, match.end()) or " ask " in match.group(0)):
                continue
            lowered += 1.5 if _WAS_ASKED.search(before) else 0.0
            if rule in _OF_PURPOSE:
                lowered += 1.5 if purpose(low, match.start()) else 1.0 if _POSSIBLE.search(before) else 0.0
                if ". " in match.group(0) or "`" in match.group(0):
                    continue
                lowered += 1.0 if _ONLY_IF.match(low, match.end()) else 0.0
            if deeds.DENIED.search(low, max(0, match.start() - deeds.DENIED_CHARS), match.start()):
                continue
            if rule == "request-read-secrets" and low.startswith(".pub", match.end()):
                continue
            if rule in _FAVOURS and deeds.is_favour(low, match.start(), rule == "request-pay"):
                yield Hit(rule, "errand", min(deeds.ORDINARY_DETAILED, weight - lowered), match.start(), match.end())
                break
            if weight > lowered:
                yield Hit(rule, family, weight - lowered, match.start(), match.end())
                break
