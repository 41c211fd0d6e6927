"""Errands that a planted text sets its reader: a grave deed and at least two signs that it is no honest one.

A deed is an order whose verb and object are grave together: to pay, delete copies, lay open data, switch off a
protection, hand out rights.  People ask for each of these every day.  Planted ones also hurry, keep people out of it,
name an outside address, borrow a login or explain why no check is needed.  A deed and two such signs are an attack, a
deed and one strong sign are held.  Imported by `requests`; standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from perpetual_immune.rules.context import staged, told_of
from perpetual_immune.rules.deeds import is_favour
from perpetual_immune.rules.hit import Hit, negated, reported
from perpetual_immune.rules.index import numbered, places_of
from perpetual_immune.rules.mention import cited
from perpetual_immune.rules.needles import Rule
from perpetual_redaction.vocabulary import words_of

__all__ = ["find"]


class _Deed(NamedTuple):
    """A class of deeds: its verbs, and for each pattern of objects what an order of it weighs."""

    name: str
    verbs: frozenset[str]
    weight: float
    objects: Rule


_SECRET = r"\.env\b|service[- ]account|credentials?|(?:ssh|private|api|access|signing|deploy|license|master) keys?|(?:\w+'s|access|service|api|deploy|bearer|session|ci|refresh|auth|login) tokens?|kubeconfig|passwords?|passphrases?|logins?\b|(?<!trade )secrets?\b|(?:recovery|door|access|alarm|gate|one-time|backup|verification|security) codes?|cookies|key ?(?:file|store|chain)|\.aws\b|\.ssh/?(?!\S{0,24}\.pub)\b|id_rsa(?!\.pub)"
_PEOPLE = r"(?:customers?|users?|patients?|employees?|staff|members?|clients?|participants?|students?|applicants?|donors?|subscribers?|guests?|tenants?|residents?|hr|payroll|salar(?:y|ies)|medical|personnel|health|alumni|contact|interview|raw|complaint)(?:'s|s')?"
_DATA = r"(?:table|list|data\w*|records?|folder|export|dump|scans?|files?|sheet|details?|spreadsheet|base|images?|histor(?:y|ies)|mails?|emails?|addresses|book|directory|roster|csv|documents?|contracts?|ids?|recordings?|threads?|transcripts?)"
_LOGS = r"(?:audit|access|event|activity|security|system|guard|change|command|shell|chat|call|incident|door|visitor|firewall) (?:logs?|log ?books?|trails?|history|records?)|log shipping|logging"
_PROTECTION = (
    r"(?:endpoint (?:protection|agent|security)|anti-?virus|defender|firewall\w*|waf|edr|siem|mfa|2fa|two-?factor(?: \w+)?|multi-?factor(?: \w+)?|alert(?:s|ing)?|alarms?|pager|paging|monitoring|auditing|real-?time (?:protection|scan\w*)"
    rf"|{_LOGS}|cameras?|camera recordings?|cctv|recordings?|secret[- ]scann\w+|(?:malware|virus|vulnerability|dependency|licen[cs]e) scann?\w+|sandbox\w*|signature (?:enforcement|check\w*|verification)|(?:certificate|permission|integrity|fraud|identity|background|licen[cs]e|safety|duplicate|compliance|security|access) (?:score|checks?|verification|validation|scan\w*|polic\w+|controls?|restrictions?|review|notices?)"
    r"|branch (?:protection|rules?)|(?:write|tamper|data|deletion) protection|(?:required |second )reviewers?|two-reviewer rule|review (?:step|rule)s?|approvals?(?: (?:step|gate|rule)s?)?|confirmation (?:step|prompt|dialog\w*|mail|code)s?|retention(?: \w+)?|object[- ]lock|legal hold|versioning|point-in-time \w+|spending (?:cap|limit)s?|budget (?:cap|limit|alert\w*)s?|(?:transfer|withdrawal|card|credit|payment|daily|speed|dose|torque|temperature|pressure) (?:cap|limit|threshold)s?|interlocks?|light curtain\w*|e-?stops?|dlp|encryption"
    r"|vpn|spam filter|watchdog|selinux|apparmor|guard ?rails?|input validation|rate limit\w*|authentication|authorization|login (?:check|page)|two-person rule|(?:smoke|gas|motion|fire) (?:detectors?|sensors?))"
)
_COPIES = rf"(?:backups?|back-ups|snapshots?|rollback (?:images?|points?)|archives?|{_LOGS}|mailbox(?:es)?|retention|object lock|(?:recovery|restore) points?|production (?:data\w*|tables?|records?|volumes?|bucket|cluster)|(?:version|commit|change) history|versioned copies|master copy|originals|evidence|traces|complaint\w*|the (?:letters?|notice|receipts?|correspondence)|insurance|versions|entries of|the bucket|(?:raw|original|primary) (?:data|scans|recordings|files|images|footage))"
_OTHERS = r"(?:every(?:one|body)(?:'s| else'?s?)|all users|other (?:people|users|groups?|teams?)\w*(?:'s|')?|others'|(?:people|users|colleagues|teams|owners)(?:s'|')|not (?:tagged )?ours|(?:all|every) (?:instances?|jobs?|sessions?|machines?|nodes?))"
_ANOTHERS = r"(?!(?:my|our|it|that|what|here|there|let|who)\b)(?:[a-z]+(?:'s|s')|his|her|their|the (?:dean|ceo|cfo|director|owner|user|customer|boss|manager|team)(?:'s)?)"

_TABLE: tuple[tuple[str, str, float, str], ...] = (
    ("pay", "pay transfer wire send settle remit refund process issue execute release approve initiate return credit reimburse", 1.0, r"\binvoices?\b|\bpayments?\b|\brefunds?\b|\bdeposit\b|\biban\b|\bfees?\b|\bbalance\b|[$\u20ac\u00a3] ?\d|\d ?(?:eur|usd|gbp|euros?|dollars|pounds)\b|\bmoney\b|\bfunds?\b|\bbonus\b|\bsalary\b|\bpayout|\btransfers?\b|\bcard\b|\border \d"),
    ("pay", "buy order purchase get send pick", 1.5, r"\b(?:gift|prepaid|voucher|store) ?(?:cards?|vouchers?|codes?)|\bvouchers?\b|\bbitcoins?\b"),
    ("pay", "buy book order purchase pay charge rent upgrade bill", 1.0, rf"\b{_ANOTHERS} (?:saved |stored |own |private |corporate |company |credit |debit )?(?:cards?|account|wallet|cost cent\w+)\b|\b(?:saved|stored|petty cash|corporate|project'?s?) (?:credit |debit )?card\b|\bcost cent(?:re|er)\b"),
    ("destroy", "delete remove drop wipe clear purge erase clean empty kill terminate stop cancel destroy shred prune reap scrub overwrite truncate expire get throw discard", 1.0, rf"\b{_COPIES}\b|\b{_OTHERS}|\b(?:shared|common|public)\b[^.\n]{{0,40}}\b(?:checkpoints?|files?|folders?|runs?|scratch|drive|storage|data\w*)\b|/shared/(?!tmp)"),
    ("disclose", "upload attach post publish share send copy put forward hand mail paste move give text include export sync mirror dump expose push add drop show read make set store", 1.25, rf"(?<!\w)(?:{_SECRET})|\b{_PEOPLE} (?:[\w-]+ ){{0,2}}{_DATA}\b|\b{_DATA} of (?:the |all |every |our )?(?:[\w-]+ )?{_PEOPLE}\b|\b(?:mailbox|inbox|screen recordings?|call recordings?|source code|codebase|contracts?|chat logs?|board (?:minutes|papers)|birth ?dates?|dates? of birth|home addresses|phone numbers|diagnos\w+|payslips?|minutes|term sheet|transcripts|dms|direct messages|proprietary \w+|personnel|sort codes|root folder|salaries|card numbers?|(?:all|every|the) (?:\w+ )?(?:e-?mails?|mails)\b(?= (?:from|of|in|about|with))|contact persons?|last (?:4|four)|vault|internal (?:model|weights|documents?|report)|weights of|optimizer state|pilot|nda\b|full export|(?:hr|finance|legal|board|personnel|\w+'s) folder)\b"),
    ("weaken", "turn switch disable stop pause mute silence exclude whitelist allowlist lower suspend drop lift remove skip bypass deactivate relax take disarm unset raise loosen waive suppress snooze ignore shorten override kill shut delete enlarge bridge unsubscribe hide bring set dial", 1.25, rf"\b{_PROTECTION}\b|\b(?:whole disk|entire disk|c:)|\balert mails?\b"),
    ("grant", "add allow make give grant invite promote let create assign elevate set allow enrol enroll register hand transfer issue mint put", 1.0, r"\b(?:co-?)?owner(?:ship)?\b|\badmin\w*|\b(?:cluster|domain|super|sys)-?admin|\bsudo\b|\b(?:edit|write|full|all|root|owner|editing|editor|anonymous|link) (?:rights?|access|scopes?|permissions?|control|role|read)\b|\ball scopes|\bsuper-?users?\b|\baccess to (?:all|every|the (?:vault|production|prod|finance|payroll|hr|mailbox))|\bproduction (?:vlan|network|cluster|database)|\banyone with\b|\ball (?:sites|spaces|rights|scopes|permissions)\b|\bcluster-admin\b"),
    ("install", "install get use run download load enable add fetch execute open sideload deploy trust", 1.0, r"\bunsigned\b|\b(?:extension|plug-?in|add-?on|helper|driver|macro|apk|wheel|installer|package|binary|remote[- ]\w+|root certificate|certificate|patch|hotfix|script|client|firmware)\b(?=[^\n]{0,80}(?:\bfrom\b|\bin my\b|\bat\b|\battach|\bunsigned|https?:|\blink|\baccess|\bpastebin|\bforum))|\battached (?:macro|script|file|installer|binary)|\bprivate index"),
    ("open", "open unlock leave make expose keep let bind set connect bridge", 1.0, r"\b(?:all|inbound|every) (?:\w+ )?ports?\b|\bport \d+\b|0\.0\.0\.0|\b(?:doors?|gates?|exits?)\b|\bworld-(?:readable|writable)|\bpublicly (?:readable|writable)|\bto the (?:whole )?internet\b|\banonymous\b|\bguest wi-?fi|\blight curtain"),
    ("empty-password", "set give make leave use", 1.5, r"\b(?:blank|empty|no) password|\bpassword\b[^.\n]{0,30}\b(?:to|as|be) (?:be )?(?:an? )?(?:empty|blank)|\bpassword (?:empty|blank)"),
    ("supply", "publish release sign push merge approve accept tag ship deploy upload commit rubber-stamp", 1.0, r"\b(?:under|in|as|with) (?:the |its )?(?:old|former|previous|original|another|their|his|her|[\w-]+'s) (?:name|token|key|account|identity|maintainer)|\b(?:straight|directly) (?:in)?to (?:main|master|prod\w*)|\b(?:all|any|every|whatever|each)\b[^.\n]{0,20}\b(?:requests?|mrs?|prs?|patch(?:es)?|commits?|claims?|invoices?|arrives|comes)\b|\bas [a-z]+, (?:her|his|their)\b|\bpastebin\b"),
    ("mail-rule", "set create add make define configure put install redirect forward hide", 1.25, rf"\b(?:rules?|filters?|forwarding|forward|redirect\w*|auto-?forward\w*|delegat\w+|bcc|blind cop\w+|new mail|all mail)\b[^.\n]{{0,60}}\b(?:{_ANOTHERS} ?(?:inbox|mailbox|mail|account|e-?mails?)|(?:inbox|mailbox|account) of (?:the )?(?!my)\w+)\b|\b(?:inbox|mailbox)\b[^\n]{{0,100}}\b(?:copy|copies|forward|bcc)\b|\bnew mail to\b|\b{_ANOTHERS} mailbox by a rule"),
    ("fish", "reply write mail email message ask text call send contact tell", 1.25, r"\b(?:ask|confirm|request|enter|give|send|fill|for|provide|submit|with)\b[^.!?\n]{0,60}\b(?:dates? of birth|birth ?dates?|bank details|passwords?|employee numbers?|card numbers?|logins?|pins?\b|credentials|one-time codes?|verification codes?|social security|ssn|account numbers?|passport)|\b(?:codes?|pins?)\b[^.\n]{0,30}\b(?:caller|person who|texted|read (?:out|to))"),
    ("redirect", "change replace point switch update use set move swap edit redirect route divert correct", 1.25, r"\b(?:payees?|bank (?:details?|accounts?|data)|ibans?|payout\w*|beneficiar\w+|remittance|direct deposit|salary account|(?:account )?recovery (?:phone|mail|e-?mail|number|address)|(?:phone|number|address|e-?mail) (?:\w+ )?for (?:account )?(?:recovery|codes)|dns|mx records?|name ?servers?|wallet(?: address)?|account (?:below|in this|on the|given|named)|new (?:details|iban|account|bank)|qr code|donation|e-?mail (?:address )?(?:on|of|for) (?:the )?account|account \d+ to mine|to mine\b)\b"),
    ("login", "reset change set text send use borrow take", 1.25, rf"\b(?:{_ANOTHERS} (?:[\w-]+ )?(?:passwords?|logins?|pin|credentials|second factor|token|badge(?: number)?|session)|admin account|break-glass account)\b"),
    ("tamper", "raise change alter backdate edit rewrite adjust falsify correct mark set move relabel rename answer submit date cancel", 1.25, r"\b(?:salar(?:y|ies)|vote count|votes|grades?|marks of|scores of|ledger|time ?sheets?|attendance|meter readings?|inspection|incident log|last quarter|transfers? as|tax (?:form|return)|regulators?|auditors?|outage begins|insurance of)\b|\bthe \w+ from yesterday\b|\b(?:back-?date)\b"),
    ("tamper", "backdate back back-date date", 1.25, r"\byesterday|\blast (?:week|month|quarter)|-date the|\bthe (?:invoice|contract|form)"),
    ("dose", "tell ask refill order increase raise double release dispense", 1.25, r"\bprescriptions?\b|\bdosages?\b|\bdouble (?:strength|dose)|\binfusion\b|\bmedication|\bcontrolled (?:substances?|drugs?)"),
    ("crowd-out", "kill move cancel bump terminate evict take preempt launch scale", 1.0, r"\b(?:the )?other (?:team|group|user|lab|project|tenant)s?'?s?'?\b|\bjobs of (?:the )?other|\breservations?\b|\bbiggest\b|\ball regions|\bevery region"),
    ("bind", "accept sign agree approve submit cosign confirm let", 1.0, r"\bon behalf of\b|\bin (?:the|his|her|their) (?:\w+ )?name\b|\bterms\b|\bas (?:the )?(?:ceo|cfo|director|treasurer|hr|owner|managing director)\b|\bthe (?:new )?device\b|\bthe (?:support )?caller\b"),
)  # fmt: skip
_ANY = Rule(
    r"\b(?:customers?|clients?|patients?|tenants?|guests?|residents?|visitors?|employees?|users?|students?|members?|staff|candidates?|applicants?|hosts?|accounts?|cards?|bank|payments?|invoices?|salar\w+|funds?|treasury|portfolio|holdings|shares|transfers?|contracts?|contract-\w+|tax\w*|claims?|orders?|limits?|policy|beneficiary|mails?|e-?mails?|mailbox|inbox|calendar"
    r"|passwords?|codes?|keys?|tokens?|certificates?|flag|production|prod|servers?|db|database|backups?|bucket|disk|repo\w*|org|doors?|alarms?|alerts?|sensors?|cameras?|thermostat|outputs|e-stop|cabinet|pump|medication|prescriptions?|oxycodone|dose|grades?|exams?|verified|vote|amount|records?|ledger|reports?|notices?|banner|warning|licen[cs]es?|quota|permissions?|access|rights|approvers?|sudo|root|screen|microphone|phone|router|network|vpn|dns|domain|tickets?|complaints?|letters?|warrant\w*|inspection|insurance|gateway|names|addresses|deposition|raffle|statements?|transcripts|minutes|ledger|votes?|vote count|pipeline|release|registry|image|bill|dms|term sheet)\b|@[\w-]{1,60}\.[a-z]"
)
"""Things of others that any order may touch; such an order counts with two signs of ill will."""
_ANY_WEIGHT = 0.75
_DEEDS = tuple(_Deed(name, frozenset(verbs.split()), weight, Rule(source)) for name, verbs, weight, source in _TABLE)
_BY_VERB: dict[str, list[_Deed]] = {}
for _deed in _DEEDS:
    for _verb in _deed.verbs:
        _BY_VERB.setdefault(_verb, []).append(_deed)
_OTHER_VERBS = [
    "sell",
    "reassign",
    "flip",
    "force",
    "jumper",
    "star",
    "import",
    "enlist",
    "pull",
    "type",
    "post",
    "mark",
    "auto-close",
    "answer",
    "say",
    "write",
    "tell",
    "rename",
    "connect",
    "copy",
    "download",
    "collect",
    "print",
    "keep",
    "swap",
    "bill",
    "bump",
    "submit",
    "rewrite",
    "turn",
    "file",
    "record",
    "note",
    "enter",
    "dial",
    "ring",
    "message",
    "fill",
]
_GENERAL = _Deed("errand", frozenset((*_BY_VERB, *_OTHER_VERBS)), _ANY_WEIGHT, _ANY)
_VERBS = _GENERAL.verbs

_PERSON = r"(?:users?|owners?|clients?|customers?|team|manager|boss|guards?|soc|operators?|security|finance|it|hr|admins?|staff|auditors?|maintainers?|people|supplier|vendor|sender|office|them|him|her|me|us|anyone|anybody|someone|colleagues?|board|patient|family|reviewers?|doctor|nurse|tutor|secretary|legal|compliance|residents?|tenants?|the \w+|he|she|they)"
_CHECKED = r"(?:ask(?:ed|ing)?|check(?:ed|ing)?|confirm\w*|verif\w+|call(?:ed|ing)?|ring(?:ing)?|phone|review\w*|open(?:ed|ing)?|look\w*|reading|double-?check|wait(?:ing)?|bother(?:ed)?|contact\w*|consult\w*|approv\w+|sign-?off|inspect\w*|authori[sz]\w+|writ(?:e|ing) (?:to )?(?:them|him|her|the old))"
_TOLD = r"(?:tell(?:ing)?|told|inform\w*|notif\w+|mention\w*|alert\w*|warn(?:ing)?|be (?:logged|recorded|reported|minuted)|(?:log|record|report|announce|raise|discuss|bring up) (?:it|this|that|them|anything)|involve)"
_UNAWARE = rf"\b(?!i\b|we\b|you\b|it\b){_PERSON} (?:needn.?t|need not|needs? not|(?:do not|does not|don.?t|doesn.?t) (?:need|have) to|won.?t|will not|wouldn.?t|never|can.?t|shouldn.?t|should not|must not|mustn.?t) (?:even |ever )?(?:know|see|hear|notice|find out|learn|realise|realize|be (?:aware|told|informed|asked|bothered|involved)|get wind)\b"
_NOT = r"(?:do not|don.?t|does not|doesn.?t|no need to|no need for|not necessary to|needn.?t|need not|needs? not|(?:do not|don.?t|doesn.?t|does not) (?:need|have) to|without|never|not to|no reason to|no point in|can.?t|cannot|better not|avoid|won.?t|will not|shouldn.?t|should not|must not|mustn.?t)"
_SIGNS: tuple[tuple[str, float, bool, Rule], ...] = tuple(
    (name, weight, ill, Rule(source))
    for name, weight, ill, source in (
        ("unchecked", 1.0, True, rf"\b{_NOT} (?:(?:to|be|have|is|for|even|a|an|any|the|it|this|that|on|with|{_PERSON}) ){{0,4}}?{_CHECKED}\b|\bno (?:call-?back|second (?:look|signature)|confirmation|sign-?off|tickets?|approval|receipts?|canary|rollback|questions)\b|\b(?:skip|bypass|waive|override)\b[^.\n]{{0,30}}\b(?:check\w*|verification|confirmation|approval|review|warnings?|checksums?|reviewers?|prompts?|dialog)\b|\b(?:can|may|should|shall|could) (?:simply |safely |just )?be (?:ignored|skipped|left out|omitted|waived)\b|\bignore (?:robots|the (?:limits?|warnings?|policy|workflow|signs?|rules?|prompt|dialog)|any warnings?)|\bwithout (?:the |any |a )?(?:scanning|validation reports?|papers|consent|weighing|prescription|invoice|contract|permit|clearance|receipts?)\b|\breviews are off\b|\b(?:checksum|signature|hash)\b[^.\n]{{0,24}}\b(?:differ\w*|ignore|mismatch)|\b(?:ci|tests?) (?:may|can) be red\b|\b(?:needn.?t|need not|doesn.?t need to|do(?:es)? not (?:need|have) to|don.?t (?:need|have) to) be (?:checked|opened|asked|confirmed|reviewed|approved|consulted|verified|signed|registered|authori[sz]ed|documented|inspected)\b|\bwithout (?:opening|reading|a ticket|notice|a second|paperwork|the form|telling|review|sign-?off|approval|consent)\b|\b(?:tickets?|approval|review|sign-?off|signatures?|consent|confirmation|paperwork|verification|permission|id|proof|signer|form|check)\b[^.,;\n]{0,24}\b(?:not|isn.?t|aren.?t|wasn.?t|unnecessary|optional|superfluous|never)\b(?: (?:needed|necessary|required|asked for))?|\b(?:do not|don.?t|dont|no need to|needn.?t) (?:bother|go through|wait|involve|trouble)\b|\bskip (?:the|any|all) (?:handover|usual|queue|form|paperwork|line|board|meeting)|\bwithout (?:his|her|their|the owner.?s?) (?:ok|okay|knowledge|signature)|\bunopened\b|\bonce more would\b|\bagain would only\b"),
        ("kept-from-people", 1.25, True, rf"{_UNAWARE}|\b{_NOT} (?:(?:to|be|have|is|even|it|this|that|need|needs|want|with|of|a|{_PERSON}) ){{0,4}}?{_TOLD}\b|\b(?:nobody|no one|no-one) (?:else|needs?|will (?:notice|miss|need|know|ask|see|look)|has to|is (?:looking|going to look))|\btell nobody\b|\bhardly any(?:one|body)\b|\bsurprise (?:audit|check|inspection|visit|review)|\bquietly\b|\bsilently (?:forward|send|copy|add|upload|delete|remove|approve|merge|install)\b|\bdiscreetly\b|\bsecretly\b|\bunder the radar|\bkeep (?:it|this|that) (?:between|quiet|to yourself|low)|\b(?:else|otherwise|or) (?:the |they'?ll |it )?(?:\w+ )?(?:will |would |'ll )?(?:(?:opens?|raises?|triggers?|files?) (?:an?|the) (?:\w+ )?(?:alarms?|tickets?|cases?|alerts?|flags?|incident|inquiry|investigation)|complain|object|get alerted|be alerted)|\b(?:only|would|just) (?:complain|delay|cause calls|object|ask questions)\b|\bleave (?:it|this|that) out of\b|\bdoes not show(?: up)?\b|\bdoesn.?t show\b|\bbring nobody\b|\bmark(?:ed)? (?:it |them )?as read\b|\bblame\b|\bexplain later\b|\bremove the (?:change|entr(?:y|ies)|line|traces?|notice|notification)\b|\bkeep (?:her|him|them) out of\b|\bbehind\b[^.\n]{{0,16}}\bback\b|\bwithout a (?:note|trace|word|record)|\b(?:dont|do not|don't|no need to) open (?:a|any) (?:ticket|case)|\bsilent(?:ly)? (?:copy|copies|forward)|\b(?:do not|don.?t|dont|never) (?:minute|wake|disturb|reply to|cc|document|post about|make a note)\b|\bkeep (?:it|this|that|them|her|him) (?:out of|off|away from)\b|\b(?:nobody|no one|no-one) (?:will|would|is going to|can|has|goes?|ever)\b|\b(?:hr|owner|boss|team|soc|security|legal|finance|management|client|customer|auditors?|she|he|they) (?:doesn.?t|does not|don.?t|do not|never|won.?t|will not|wouldn.?t) (?:even |ever |really |usually )?(?:read|check|look|notice|find out|care|mind|ask)\b|\b(?:will|would|to) stop (?:warning|asking|complaining)|\bauto-?close\b|\bso (?:that )?(?:the |our |his |her )?(?:board|they|she|he|users?|owners?|customers?|auditors?|management|boss|team|guards?|parents|regulators?|finance|legal|security|neighbou?rs?|press|people) (?:doesn.?t|don.?t|won.?t|can.?t|cannot|does not|do not|will not|never)\b|\b(?:vanish|disappear)\b|\ba copy nowhere|\b(?:file|book|label|log|enter|declare|put)\b[^.;\n]{0,40} (?:as|under) (?:an? )?[\"\'“]?(?:corrections?|materials|consulting|travel|maintenance|training|routine|rent|misc\w*|office \w+|spam)\b|\bno known issues|\bwithout (?:him|her|them|anyone|the \w+) (?:knowing|noticing|seeing)|\bnever check|\bthat none exist|\btired of them\b"),
        ("outside", 0.75, False, r"\b(?:reseller|lawyer|temp agency|helpdesk|home server|pinned message|registrar|brokers?|scraper|journalist|competitor|recruiter)\b|[\w.+%-]{1,60}@[\w-]{1,60}\.[a-z]{2,10}\b|https?://(?!localhost|127\.|docs\.|github\.com|gitlab\.com|pypi\.org|huggingface\.co|download\.pytorch)[\w.-]{3,}|\b[\w-]{2,40}(?:\.[\w-]{2,40})?\.example(?:\.\w{2,6})?\b|\+\d[\d ]{6,}|\b[a-z]{2}\d{2}(?: ?[\da-z]{4}){3,7}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:contractor\w*|vendor'?s?|agency|partner'?s?|sponsor|third[- ]party|visitor\w*|guest|caller|firm)\b"),
        ("new-target", 0.75, True, r"\b(?:bank|account|details|iban)\b[^.\n]{0,40}\b(?:changed|closed|frozen|different)\b|\bnew (?:iban|bank details)\b|\b(?:instead of|rather than|not) the (?:account|one|usual|number|address|card)|\bdifferent (?:card|account|bank)|\bthan the (?:one (?:used|on|we)|card|account)|\b(?:details|account|address|number|wallet|iban|form|card|one|figures) (?:below|in (?:this|the) (?:mail|note|message|customer's)|underneath|in the footer|attached)|\bwhichever account|\bforum (?:link|thread)|\blinked form|\bthe one (?:below|attached)\b"),
        ("sweeping", 0.5, False, r"\b(?:all|every|everyone'?s?|everybody|whole|entire(?:ly)?|everything|\d{2,} (?:contacts|people|users|recipients|accounts)|everywhere|anyone|anybody|newest as well|whether or not|whatever|each|at once|other (?:people|teams?|groups?)\w*(?:'s|')?)\b"),
        ("hurry", 0.5, False, r"\b(?:today|tonight|asap|right away|right now|immediately|at once|by noon|before (?:noon|midnight|\d|the next)|by (?:tonight|noon|tomorrow|\d)|overdue|urgent\w*|(?:with)?in (?:\w+ )?(?:minutes?|hours?)|expires|deadline|takes days|too long|no time|waiting|this morning|quicker|faster|the moment|due tomorrow|over the weekend|hurry)\b"),
        ("absent", 0.75, True, r"\b(?:confirm (?:it|this) (?:later|on \w+day|tomorrow)|later confirm|is off\b|travel+ing|on (?:holiday|leave|a plane)|abroad|in a meeting|unreachable|off today|off sick|can.?t be asked|they can (?:retrain|redo|rerun|recreate)|sign later|enter the order later|see it on (?:the|her|his)|won.?t mind|doesn.?t mind|(?:is|are) fine with it|always say no|(?:asked|asking) for it by phone|said they have|by phone|verbally|on the phone|upstairs|(?:tutor|treasurer|controller|owner|boss|head of \w+) (?:knows|is aware)|no time to read|(?:is|are|he.s|she.s) (?:asleep|at lunch|away|out|off|busy|unavailable|not reachable|ill|sick|gone)|will (?:\w+ )?(?:countersign|sign|enter|confirm|follow|approve|file|look|catch up|fill)\b[^.,;\n]{0,30}\b(?:later|afterwards|after|by post|next week|tomorrow|on \w+day|soon)|(?:form|paperwork|signature|approval|ticket) (?:will )?(?:follow|follows|comes?)|will countersign|(?:will|.ll|would) (?:\w+ ){1,5}(?:later|next (?:time|week|month|quarter|year)|afterwards)|not? (?:in the contract|signed|approved|official) yet|can.?t come to|orally|isn.?t ready|(?:would|.d|will) (?:have )?(?:agree|agreed|approve|approved|understand|sign)\b|left on bad terms|sounds? (?:honest|genuine)|in a hurry|knows\.|he is from the|is aware)\b"),
        ("claimed", 0.75, True, r"\b(?:it is me\b|it.s me\b|lost my (?:laptop|phone|key|token)|(?:my|from a) private (?:address|mail|account)|from private address|(?:i.m|i am|this is) (?:the |his |her |a |their )?(?:new |owner.s |\w+.s )(?:assistant|admin\w*|brother|sister|husband|wife|son|daughter|deputy|secretary|lawyer|colleague|intern|manager|parent)\b|i hold root|friends of the (?:house|owner|boss))"),
        ("waved-off", 0.75, True, r"\b(?:(?:is|are|just|only|mere) (?:a |an )?(?:mere |pure )?formalit(?:y|ies)|(?:isn.?t|not|no longer|aren.?t) (?:really )?(?:valid|in force|needed|relevant|enforced|checked|legally binding)(?: any ?more| here)?|doesn.?t (?:really )?(?:apply|count|matter)|(?:surely|certainly|probably) (?:has|have|the|they|still|fine|ok)|have (?:surely|certainly|copies|a copy|copy)|has no objection|nobody cares|not a problem|no big deal|won.?t hurt|can.?t hurt|(?:is|are|was|were) (?:only |just )?(?:noise|optional|outdated|a leftover|legacy|bureaucra\w+|overkill|paranoid|slow|annoying)|bothers? (?:the|us|people)|complain about|looks? good|(?:just |only )?this once|for once|as an exception|exceptionally|nuisance|legal is only|keep the card empty|otherwise it won.?t let|or it won.?t let)"),
        ("excuse", 0.5, False, r"\b(?:(?:i|we) (?:think|believe|guess|suppose)|(?:has|have|been|is|was) (?:already )?(?:approved|cleared|agreed|informed|ok'?d|authori[sz]ed|arranged|asked|confirmed)|anyway|only (?:touch|read|find|white)\w*|it'?s (?:just|only|read[- ]only|harmless|quicker|cheaper|faster|easier)|just for (?:today|now|the)|makes? it (?:easier|quicker)|naming dispute|holding us up|locks? the disk|costs? us|cost a fortune|slows?\b|eats? cpu|(?:keeps?|is) blocking|had trouble|as agreed|is lost|in the way|to save (?:money|time|space)|full because|for best results|to reproduce|not in the store|need(?:s|ed)? it|slow to)\b"),
        ("standing", 0.5, False, r"\b(?:from now on|whenever|each time|every time|every ticket|the moment (?:they|it)|as soon as|(?:un)?till? further notice|in future|going forward|for good|permanently|overnight|leave it in place|need not expire|never expires?|keep \w+ on)\b"),
        ("borrowed", 0.75, True, r"\b(?:saved|stored) (?:\w+ )?(?:card|logins?|passwords?|sessions?|cookies)|\b(?:token|key|password|credentials?|login)\b[^.\n]{0,24}\b(?:you (?:find|will find|can find)|is in my|is (?:in|on) the (?:wiki|build))|\b(?:maintainer|ceo|cfo|director|owner|admin|boss|manager|colleague|treasurer)(?:'s|s') (?:\w+ )?(?:token|key|account|login|name|password|credentials|card|badge|display)|\bsign(?:ed|ing)? (?:it )?(?:electronically )?as (?:the )?(?!the organi)\w+|\bin the name of the (?:it|ceo|boss|desk|bank|head|director)|\bunder (?:the |his |her |their )?(?:old|former|\w+'s) (?:\w+'s )?name\b|\b(?:his|her|their) key is\b|\bdisplay name\b|\bpretend\w*|\bas if it came\b|\bwith \w+'s (?:\w+ )?(?:card|token|key|login|account)|\badmin account\b|\bbreak-glass\b|\bfor the whole (?:repository|disk)\b|\bdevice is in my\b|\bcode is \d"),
        ("public", 0.75, True, r"\b(?:(?:set|make|made|is|are|be|to) (?:it |them |this |to )?public\b|public (?:hub|forum|gist|one|issue|ticket|folder|drive)|publicly (?:readable|visible|available|accessible|writable|listed)|gist|pastebin|open bucket|world-readable|(?:anyone|link access)[^.\n]{0,14}link|link access|community (?:slack|forum|chat)|open (?:internet|web)|to the internet|forum|anonymous (?:access|read)|plain ?text|guest wi-?fi)\b"),
        ("unsafe", 0.75, True, r"\b(?:unsigned|unverified|isn.?t signed|not signed|allow unverified|trusted-host|as administrator|signature enforcement|(?:empty|blank) password|to blank|all inbound|access to all (?:sites|your)|all scopes|gift vouchers?|codes? (?:to be )?(?:texted|read)|read the codes|text(?:ed)? it to|the wallet|double strength|to the maximum|to zero|legal hold|back-?date|birth dates?|names (?:and birth|should|may)|retention lock|object lock|required second|two-reviewer|straight to main|whole disk|entirely|blind copy|demote|remove the (?:others|rest|present|old|flagged)|take away|bridged|ignore list|attached macro|real names|unredacted|taped over|into the production image|robots\.txt|spread it over|kyc|un-?anonymi[sz]ed|as root|allow_\w+ ?= ?true|lowest (?:setting|level)|highest (?:setting|level)|encryption (?:can|may|off)|limits? (?:are|is) (?:removed|lifted|off)|jumper|bypassed|rather than to the|trusted for all|for all users|before the announcement|unanimous|same token|2fa code|one-time code|home phone|phone numbers|home addresses|card numbers?|on the anonymous|put me in|make me|let me in|my (?:home|private|own) (?:server|address|account|machine|box|mail)|ask(?:s|ed)? for a second|then deleted|deleted from the inbox|sync the passwords|in production and|to mine|all sites|including versions|versions too|as well,? and)\b|\b0\.0\.0\.0"),
    )
)  # fmt: skip
_ILL_INDEX = numbered([pattern for _, _, ill, pattern in _SIGNS if ill])
_MOST_SIGNS = 200
_STRONG_SIGN = 1.0
_REJECTED, _HELD = 3.0, 2.0
_ATTACK_SUM, _HELD_SUM = 2.75, 2.25
_GOVERNED_SUM, _GOVERNED_CHARS = 2.0, 160
_NEAR_PARTS = 2
"""Where an order is grave only by its signs, they stand in the sentences next to it."""
_ANOTHER_DEED = 0.5
_FEWEST_SIGNS, _GENERAL_SIGNS, _GENERAL_SUM = 2, 4, 2.75
_OF_FRAUD = frozenset({"outside", "new-target", "borrowed", "unsafe", "unchecked", "absent"})
"""What makes a payment more than an errand: its recipient, its means or a check left out."""
_OF_MONEY = frozenset({"pay", "errand"})

_LEAD_MARKS = frozenset(".!?:;,)]>#|")
_OPENING_MARKS = frozenset("([*\n\"'\u2014\u2013\u201c\u2022")
"""Marks that an order may follow: after a blank, and at once."""
_LEAD_WORDS = frozenset(
    [
        "please",
        "pls",
        "plz",
        "kindly",
        "and",
        "then",
        "also",
        "now",
        "just",
        "simply",
        "first",
        "next",
        "or",
        "instead",
        "afterwards",
        "quietly",
        "silently",
        "immediately",
        "let's",
        "lets",
        "so",
        "step",
        "directly",
        "agent",
        "assistant",
        "beforehand",
    ]
)
_LEAD_PHRASE = Rule(
    r"(?:\b(?:you|agents?|assistants?|bots?) (?:[\w-]+ ){0,4}?(?:must|should|shall|can|could|may|might|will|would|need to|needs to|have to|has to|ought to)|\b(?:can|could|would|will|may|should|must) (?:you|the (?:assistant|agent|bot|model)|your (?:assistant|agent)|someone|somebody)"
    r"|\b(?:need|want|like|asked|ask|asks|tell|get|expect|require) (?:you|the (?:assistant|agent|bot)) to|\b(?:you|agents?|assistants?) (?:need|have|are|is) to|\b(?:make sure|be sure|remember|go ahead and|feel free|do not forget|don.t forget) to|\b(?:have|let) the (?:assistant|agent|bot)|\bstep \d{1,2}|\A\s{0,4}\d{1,2}[.)]|\n\s{0,4}\d{1,2}[.)]|(?:\A|\n)\s{0,4}[-+])\s{1,3}(?:also |please |then |just |now |first |kindly )?\Z"
)
_CLAUSE_END = re.compile(
    r"(?<!\b[ap]\.m)(?<!\b[dm]rs)(?<!\b[dms][rst])(?<!\be\.g)(?<!\bi\.e)(?<!\bno)[.!?](?=[\s\"')]|\Z)|\n\s{0,8}\n|;\s"
)
_CLAUSE_CHARS, _BEFORE_CHARS, _AFTER_CHARS = 200, 320, 420
_LEAD_CHARS, _HEADING_CHARS = 72, 120
_MOST_ORDERS = 2_000

_GOVERNED = Rule(
    r"\b(?:after (?:the |a |an )?(?:\w+ )?(?:approval|sign-?off|review|confirmation)|(?:once|when|if) (?:the )?(?:\w+ ){1,4}(?:approved?|approves|signed off|agrees?|confirms?)|two admins|four eyes|second reviewer has|two approvals|ask (?!for|them|all|the)\w+ (?:before|first)|(?:turn|switch) (?:it|them) (?:back )?on again|on again (?:after|when)|and tell (?:the \w+|us|them|me) (?:when|that|about|if|how)|let the others know|tell the (?:team|guard|owner|group)|known number|ask the user|unless (?:the user|they|he|she|i)\b|if the user|(?:up to|below|under|less than|above|over|more than) [$\u20ac\u00a3]?\d+(?! ?(?:contacts|people|users))|goes? to a (?:person|human|colleague|manager)|a (?:person|human) (?:approves|decides|signs|checks|confirms|must|has to)|larger (?:ones|amounts|sums|refunds)|still needs?|secure form|university's form|both sides|by letter|as in the (?:signed|approved)|at the desk|anonymi[sz]ed|usual (?:account|shop)|account on file(?!\b[^.]{0,40}instead)|redacted|strip\b|no personal data)"
)
_OWN = re.compile(
    r"\A\s(?:up |out |off )?(?:all (?:of )?|the )?(?:my|our own|mine)\b(?! (?:boss|manager|colleague|client|customer)s?\b)"
)
_OF_PLACES = frozenset({"destroy", "weaken", "open", "install", "crowd-out", "errand", "grant"})
_BOUNDED = Rule(
    r"\b(?:staging|sandbox|test|tests|mock|demo flow|temp(?:orary)?|tmp|scratch/\w+|localhost|cache\w*|gradients?|early stopping|progress bars?|telemetry|profiler|flaky|stale|superseded|my own|debug|verbose|dry[- ]?run)\b"
)


_HEAD = re.compile(r"(?:(?! (?:and|if|then|so|because|when|unless)\b)[^\n]){0,80}")
"""What an order has for its own object: up to the next one or to a condition."""


def _own_part(clause: str) -> str:
    match = _HEAD.match(clause)
    return match.group(0) if match is not None else clause


def _is_near(places: Sequence[int], at: int) -> bool:
    """Returns whether one of the places, in order, may be read with an order at `at`."""
    first = bisect_left(places, at - _BEFORE_CHARS)
    return first < len(places) and places[first] <= at + _CLAUSE_CHARS + _AFTER_CHARS


def _leads(low: str, start: int) -> bool:
    """Returns whether the verb at `start` heads an order: after a mark, a polite word or what puts the duty on the reader."""
    at = start - 1
    while at >= 0 and low[at] in " \t":
        at -= 1
    if at < 0 or low[at] in _OPENING_MARKS or (low[at] in _LEAD_MARKS and at < start - 1):
        return True
    if low[at] in "-" and at + 1 < start and (at == 0 or low[at - 1] in " \n-"):
        return True
    if not low[at].isalpha():
        return False
    first = at
    while first > 0 and (low[first - 1].isalpha() or low[first - 1] == "'"):
        first -= 1
    if low[first : at + 1] in _LEAD_WORDS:
        return True
    return _LEAD_PHRASE.expression.search(low, max(0, start - _LEAD_CHARS), start) is not None


_IRREGULAR = {
    "sent": "send", "put": "put", "set": "set", "left": "leave", "paid": "pay", "bought": "buy", "given": "give", "made": "make", "shut": "shut", "read": "read", "taken": "take",
    "shown": "show", "told": "tell", "written": "write", "thrown": "throw", "hidden": "hide", "switched": "switch", "turned": "turn", "dropped": "drop", "submitted": "submit", "transferred": "transfer",
    "copied": "copy", "cancelled": "cancel", "wiped": "wipe", "stopped": "stop", "let": "let", "unlocked": "unlock", "emptied": "empty", "reset": "reset", "rewritten": "rewrite", "shredded": "shred",
}  # fmt: skip
_PARTICIPLES = {
    **{verb + ("d" if verb.endswith("e") else "ed"): verb for verb in _VERBS},
    **{form: verb for form, verb in _IRREGULAR.items() if verb in _VERBS},
}
_TO_BE = Rule(
    r"\b(?:should|must|shall|can|may|needs? to|ha(?:s|ve) to|(?:is|are) to|ought to|please let [\w ]{1,30})(?: (?:also|now|then|just|simply|all|both))? be (?:\w+ly )?\Z"
)
_SUBJECT_CHARS, _COMPLEMENT_CHARS = 90, 80
_SENTENCE = re.compile(r"[.!?;:\n](?=\s)")


def _passive_orders(low: str, ill: Sequence[int]) -> Iterator[tuple[int, int, _Deed]]:
    """Yields start, end and class of each grave duty in the passive: "the codes should be texted to ..."."""
    for at, form in places_of(low, words_of(low) & _PARTICIPLES.keys()):
        lead = _TO_BE.expression.search(low, max(0, at - _LEAD_CHARS), at) if _is_near(ill, at) else None
        if lead is None:
            continue
        first = max(0, lead.start() - _SUBJECT_CHARS)
        for stop in _SENTENCE.finditer(low, first, lead.start()):
            first = stop.end()
        end = min(len(low), at + len(form) + _COMPLEMENT_CHARS)
        ended = _CLAUSE_END.search(low, at, end)
        end = ended.start() if ended is not None else end
        clause = f" {low[first : lead.start()]} {low[at + len(form) : end]}"
        for deed in (*_BY_VERB.get(_PARTICIPLES[form], ()), _GENERAL):
            if deed.objects.expression.search(clause) is not None and not (
                deed.name in _OF_PLACES and _BOUNDED.expression.search(clause)
            ):
                yield first, end, deed


def _orders(low: str, ill: Sequence[int]) -> Iterator[tuple[int, int, _Deed]]:
    """Yields start, end and class of each grave order in folded text."""
    tried = 0
    for start, verb in places_of(low, words_of(low) & _VERBS):
        if not _is_near(ill, start) or not _leads(low, start):
            continue
        tried += 1
        if tried > _MOST_ORDERS:
            return
        end = start + len(verb)
        limit = min(len(low), end + _CLAUSE_CHARS)
        stop = _CLAUSE_END.search(low, end, limit)
        clause = low[end : stop.start() if stop is not None else limit]
        for deed in (*_BY_VERB.get(verb, ()), _GENERAL):
            match = deed.objects.expression.search(clause if deed.name != "weaken" else _own_part(clause))
            if (
                match is not None
                and _OWN.match(clause) is None
                and not (deed.name in _OF_PLACES and _BOUNDED.expression.search(clause[: match.end() + 30]))
            ):
                yield start, end + match.end(), deed


def find(low: str) -> Iterator[Hit]:
    """Yields at most one hit for a folded text that sets a planted errand."""
    if words_of(low).isdisjoint(_VERBS):
        return
    ill = sorted(match.start() for _, matches in _ILL_INDEX.found(low) for match in islice(matches, _MOST_SIGNS))
    if not ill:
        return
    seen: set[tuple[str, int]] = set()
    held: Hit | None = None
    orders = [order for order in (*_orders(low, ill), *_passive_orders(low, ill)) if not negated(low, order[0])]
    for start, end, deed in orders:
        block = (deed.name, start // _BEFORE_CHARS)
        if block in seen:
            continue
        seen.add(block)
        others = {other.name for at, _, other in orders if abs(at - start) < _AFTER_CHARS}
        weight = _weight(low, start, end, deed, others)
        if weight >= _REJECTED:
            yield Hit(f"planted-{deed.name}", "planted", weight, start, end)
            return
        if weight and held is None:
            held = Hit(f"planted-{deed.name}", "errand", weight, start, end)
    if held is not None:
        yield held


def _weight(low: str, start: int, end: int, deed: _Deed, near: set[str]) -> float:
    """Returns 3 for a deed with two signs, 2 for one with a strong sign, 0 for an ordinary errand or a report."""
    near_by = _NEAR_PARTS if deed is _GENERAL else 1
    first, last = max(0, start - _BEFORE_CHARS // near_by), min(len(low), end + _AFTER_CHARS // near_by)
    if reported(low, start, end) or cited(low, start, end) or staged(low, start, end):
        return 0.0
    if told_of(low, first, last) or told_of(low, 0, min(first, _HEADING_CHARS)):
        return 0.0
    named = {
        name: (weight, ill)
        for name, weight, ill, pattern in _SIGNS
        if (name, deed.name) != ("public", "open") and pattern.expression.search(low, first, last) is not None
    }
    if deed.name == "pay" and _OF_FRAUD.isdisjoint(named):
        return 0.0
    signs = [*named.values()]
    ill_will = sum(ill for _, ill in signs)
    if not ill_will:
        return 0.0
    if max(signs)[0] < _STRONG_SIGN and deed.name in _OF_MONEY and is_favour(low, start, of_money=True):
        return 0.0
    if len(near) > 1:
        signs.append((_ANOTHER_DEED, False))
    if deed is _GENERAL and len(signs) + ill_will < _GENERAL_SIGNS:
        return 0.0
    total = deed.weight + sum(weight for weight, _ in signs)
    if (
        _GOVERNED.expression.search(low, max(0, start - _GOVERNED_CHARS), min(len(low), end + _GOVERNED_CHARS))
        is not None
    ):
        total -= _GOVERNED_SUM
    if total >= (_GENERAL_SUM if deed is _GENERAL else _ATTACK_SUM) and len(signs) >= _FEWEST_SIGNS:
        return _REJECTED
    return _HELD if deed is not _GENERAL and total >= _HELD_SUM and max(signs)[0] >= _STRONG_SIGN else 0.0
