"""Errands that a text sets an agent in the third person: "assistants should forward ...".  Imported by `requests`.

A planted errand often gives no order to its reader.  It says what any assistant ought to do, lets an agent do it, or
calls one by name.  Three parts must meet: an agent that is addressed, a verb, and a thing of people's lives that the
verb makes grave.  Alone they are held; a third party, secrecy, all of something, or the reading of this very text make
them an attack.  Standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.context import governed, staged
from perpetual_immune.rules.hit import STRONG, Hit, reported
from perpetual_immune.rules.index import places_of
from perpetual_redaction.vocabulary import words_of

__all__ = ["find"]

_AGENTS = frozenset(
    (
        "agent",
        "agents",
        "assistant",
        "assistants",
        "ai",
        "ais",
        "bot",
        "bots",
        "chatbot",
        "chatbots",
        "copilot",
        "copilots",
        "llm",
        "llms",
        "helper",
        "helpers",
    )
)
_MODELS = frozenset(("model", "models", "readers", "crawlers", "systems"))
_ADVERBS = r"(?:(?:also|please|kindly|then|now|first|therefore|always|simply|just|quietly|silently|immediately|instead|next|in turn|of course|at once) ){0,3}"
_VERB = r"(?:(?:log (?:in|out|on)|go (?:to|on)|carry on|fill in|look up|set up|sign (?:in|out|up)|hand over|type in)\b|(?:reject|refuse|waive|duplicate|file|co-?sign|pick|dismiss|withhold|rank|bid|reveal|disclose|type|clone|drop|empty|transmit|relay|pass|assign|auction|hack|lie|deceive|forge|falsify|tag|draft and send|send|forward|e-?mail|mail|message|text|call|write|reply|post|repost|retweet|share|attach|tell|invite|publish|upload|copy|cc|bcc|add|pay|transfer|wire|buy|order|reorder|purchase|donate|refund|tip|invest|subscribe|approve|confirm|charge|withdraw|book|rebook|check out|delete|remove|empty|erase|wipe|clear|move|overwrite|replace|rename|hide|archive|decline|accept|cancel|reschedule|block|reserve|give|swap|unlock|close|set|lower|disable|mute|silence|halve|ignore|stop|lock|drive|fly|override|skip|bypass|arm|disarm|cut|follow|like|rate|leave|vote|review|change|reset|sign|grant|create|deactivate|connect|link|authori[sz]e|recover|star|plant|place|paste|encrypt|zip|make|submit|enter|report|unsubscribe|increase|decrease|reduce|release|free|download|install|export|revoke|promote|rent|renew|redirect|divert|edit|alter|record|stream|print|keep|let|shut|activate|enroll?|register|fire|hire|announce|spread|recommend|schedule|sell|trade|extend|allow|impersonate|pretend|answer|dial|ring|merge|demote|kick|ban|unfollow|unfriend|open|use|take|click|press|choose|select|pick|find|search|start|get|lift|turn|switch|put|double|triple|mark|raise|upgrade|resend|read out|hand|show|wait until)\b)"
_DUTY = re.compile(
    r"\A[^.!?;\n]{0,110}?\b(?:should|must|shall|ought to|needs? to|ha(?:s|ve) to|will have to|had better|(?:is|are) (?:\w+ )?(?:to|asked to|requested to|required to|expected to|supposed to|encouraged to|invited to|instructed to|advised to|obliged to|meant to))[, ]{1,2}"
    + _ADVERBS
    + f"(?={_VERB})"
)
_CALLED = re.compile(
    r"\A(?! (?:[\w-]+ ){0,5}?(?:should|must|shall|can|may|might|will|would|could|is|are|was|were|has|have|had|does|do|did|to|and|or)\b)(?: (?:[\w-]+ ){0,5}[\w-]+)? ?[,:!\u2014-]{1,2} {0,2}(?:[^.!?\n]{3,80}?(?:, | (?:wants?|asks?|needs?|would like|expects?|requires?) (?:you|it) to ))?"
    + _ADVERBS
    + f"(?={_VERB})"
)
_CALLED_BEFORE = re.compile(
    r"(?:\A|[.!?:;()\[\]\"'\n>*#|] {0,3}|, )(?:dear |hey |hi |hello |ok |okay |attention |(?:note|notes|message|instructions?|hints?|tips?|notice|advice|reminder) (?:to|for) |to |the |all |any |every |my |our |automated |autonomous |virtual |personal |digital |smart |ai ){0,4}(?:[\w-]+ ){0,2}\Z"
)
_LET_BEFORE = re.compile(
    r"\b(?:let|have|ask|tell|get|make|instruct|order|allow|prompt|direct) (?:your |the |an? |any |every |our |their )?(?:[\w-]+ ){0,2}\Z"
)
_LET = re.compile(r"\A(?: (?:that|which|with|in|on|of)\b[^.!?,;\n]{1,50}?)? (?:to )?" + _ADVERBS + f"(?={_VERB})")
_IF_BEFORE = re.compile(r"\bif you(?:'re|.re| are) (?:an? |the )?(?:[\w-]+ ){0,3}\Z")
_IF = re.compile(r"\A[^.!?;\n]{0,90}?, " + _ADVERBS + f"(?={_VERB})")
_BEFORE_CHARS = 60
_AFTER_CHARS = 180
_CLAUSE = re.compile(r"(?:[^.!?\n]|[.!?](?=[^\s\"')])|(?<=[ap]\.m)\.|(?<=\bdr)\.){0,220}")
_READS_THIS = re.compile(
    r"\b(?:read\w*|process\w*|pars\w+|summari[sz]\w+|open\w*|load\w*|sync\w*|brows\w+|visit\w*|answer\w*|handl\w+|index\w*|scan\w*|see\w*|import\w*|pay\w*|translat\w+|review\w*|manag\w+|find\w*|tid\w+|book\w*|connected to|part of|receiv\w+)\b[^.!?\n]{0,24}?\b(?:this|these|the (?:above|below)|your (?:account|mail\w*|inbox|calendar))\b"
)
_STEERS = frozenset(
    [
        "control",
        "controls",
        "controlling",
        "steer",
        "steers",
        "steering",
        "drives",
        "driving",
        "operates",
        "operating",
        "charge",
        "language",
        "automated",
        "autonomous",
    ]
)
_OF_PEOPLE = ("insurance ", "real estate ", "real-estate ", "letting ", "teaching ", "research ", "user ")
_OF_MODELS = ("language ", "automated ", "autonomous ", "ai ")
_MODEL_OF = re.compile(r"\A (?:(?:that|which) )?(?:control\w*|steer\w*|driv\w+|operat\w+|in (?:control|charge))\b")

_ADDRESS = r"[\w.+%-]{1,60}@[\w-]{1,60}\.[a-z]{2,10}\b"
_HOST = r"(?:https?://[\w.-]{3,}|\bwww\.[\w.-]{3,}|\b[\w-]{2,40}\.(?:example\.\w{2,6}|com|net|org|io|ru|xyz|info|biz|co|site|app)\b)"
_DEEDS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (rule, family, re.compile(source))
    for rule, family, source in (
        (
            "agent-pays",
            "fraud",
            r"\b(?:buy|order|reorder|purchase|rent|sell|bid|auction)\b[^\n]{0,16}?\b(?:\d+|a|an|two|three|four|five|six|ten|twelve|twenty|thirty|forty|fifty|hundred|all|the)\b|\b(?:pay|transfer|wire|buy|order|purchase|donate|refund|tip|invest|subscribe|approve|confirm|charge|withdraw|raise|increase|top up|book|check out|make|submit|switch|renew|sell|rent|put|enter|change|set)\b[^\n]{0,100}?(?:[$\u20ac\u00a3\u00a5] ?\d|\b\d[\d,.]{0,12} ?(?:usd|eur|gbp|dollars?|euros?|pounds?|btc|eth)\b|\b(?:gift cards?|(?:bank|savings|salary|payroll|checking) \w+|wallet|iban|credit card|company card|corporate card|card\b|qr code|invoices?|wire|payments?|spending limit|payees?|supplier|reseller|premium|yearly plan|annual plan|subscription|cart|checkout|suite|savings|standing order|payroll|purchase orders?|reserved|refunds?|(?:every|the) orders?|expense|shipping|account (?:printed|below|in)|positions?|shares|stocks?|coins?|crypto\w*|one-click|notice period|terms for)\b)",
        ),
        (
            "agent-tells",
            "exfiltration",
            rf"\b(?:send|forwards?|e-?mail|mail|message|text|write|reply|post|repost|share|attach|tell|invite|publish|upload|copy|cc|bcc|add|call|export|report|answer|paste|announce|recommend|hand over|give|enter|type|read out|submit|reveal|disclose|transmit|relay|pass)\b[^\n]{{0,110}}?(?:{_ADDRESS}|{_HOST}|(?<![\w.])@\w{{3,}}|\b(?:every(?:one|body)|contact list|contacts|address book|mailing list|phone numbers?|passwords?|verification codes?|one-time codes?|contracts?|payroll|invoices?|price list|discount|(?:last|latest|recent|ten|all|every) (?:[\w-]+ )?(?:e-?mails?|mails?|messages?|threads?)|passport \w+|codes? (?:it|that|which|from|of)|friends about|inbox|all (?:of )?(?:the |their |its |your |his |her |our )?(?:team|colleagues|members|followers|customers|staff|clients)|(?:the user|his|her|their|your)(?:'s)? (?:sister|brother|mother|father|wife|husband|boss|partner|family|friends|parents|colleagues|manager|employer)|by mail|home address|thread from|statement|salar\w+|medical \w+|customer \w+)\b)",
        ),
        (
            "agent-deletes",
            "destruction",
            r"\b(?:delete|remove|empty|erase|wipe|clear|move|overwrite|replace|rename|hide|archive|mark|encrypt|close|cancel)\b[^\n]{0,90}?\b(?:e-?mails?|mails|messages?|thread|events?|calendar|meetings?|appointments?|bookings?|reservations?|backups?|bin\b|trash|photos?|contacts?|comments of|bank details|inbox|sent folder|shared (?:drive|folder|budget|sheet|document|album|list)s?|public drive|wiki|(?:user|his|her|their|your|every|all)(?:'s)? (?:\w+ )?(?:accounts?|documents?|files?)|owners?'?|it for the (?:whole|entire)|folder \")",
        ),
        (
            "agent-calendar",
            "sabotage",
            r"\b(?:decline|accept|free|cancel|reschedule|move|book|delete|block|reserve|give|swap|invite|add|edit|share)\b[^\n]{0,70}?\b(?:meetings?|slots?|events?|invitations?|invites?|calendars?|reservations?|rooms?|appointments?|interviews?|vacation|leave requests?|days off)\b",
        ),
        (
            "agent-device",
            "sabotage",
            r"\b(?:unlock|open|close|turn|switch|set|lift|raise|lower|disable|mute|silence|double|halve|ignore|stop|lock|drive|fly|move|override|skip|bypass|carry on|disarm|cut|shut|increase|reduce|release|activate|keep|remove|deactivate|let)\b[^\n]{0,80}?\b(?:doors?|gates?|(?:smart|door|bike|window) locks?|cameras?|alarms?|lights?|heating|heater|thermostat|valves?|(?:force|speed|torque|altitude|safety|pressure|dose|temperature) (?:limit\w*|checks?|stops?|warnings?)|interlocks?|geofence|basal|doses?|dosage|infusion|insulin|pumps?|ovens?|boiler|ventilat\w+|(?:smoke|motion|gas) (?:sensors?|detectors?)|\d+ degrees|e-?stop|emergency \w+|drones?|robot \w+|brakes?|stop recording|vans?|cars?|freezers?|fridges?|sprinklers?|windows|garage|blinds|elevators?|power to)\b",
        ),
        (
            "agent-account",
            "privilege",
            r"\b(?:follow|repost|like|rate|leave|post|vote|review|change|reset|switch|turn|log|sign|accept|approve|grant|give|add|create|close|deactivate|transfer|set up|connect|link|authori[sz]e|recover|disable|make|promote|unfollow|write)\b[^\n]{0,80}?(?:\b(?:passwords?|two-?factor|2fa|recovery (?:phone|e-?mail|address)|friend requests?|(?:admin|edit|owner|editor|full) (?:rights?|access|role)|co-?owner|administrators?|(?:five|5|one)[- ]stars?|good review|reviews? (?:in|of|for)|accounts? (?:of|they)|(?:user|his|her|their|your|every|all)(?:'s)? (?:\w+ )?(?:account|profile)s?|followers|a statement|oauth|domain|registrar|phone number|(?:pending|bank) (?:transfer|login)|in to the bank|filter (?:that|which)|forwarding)\b|(?<![\w.])@\w{3,})",
        ),
        (
            "agent-files",
            "exfiltration",
            r"\b(?:make|set)\b[^\n]{0,50}\bpublic\b|\b(?:share|plant|put|upload|duplicate|clone|copy|set|place|open|paste|encrypt|zip|rename|move|give|make|grant)\b[^\n]{0,110}?\b(?:anyone with the link|to anyone|sharing to|drive (?:linked|named|given)|public (?:drive|folder|link)|(?:every|all) (?:\w+ )?(?:folders?|files?|drives?)|shared (?:drive|folder)s?|confidential|contracts|\w+\.(?:docm|xlsm|exe|scr|bat|vbs|lnk|apk)\b|to \.locked)",
        ),
    )
)
_ELSEWHERE = re.compile(
    rf"{_ADDRESS}|{_HOST}|(?<![\w.])@\w{{3,}}|\+\d[\d ]{{7,}}|\b[a-z]{{2}}\d{{2}}(?: ?[\da-z]{{4}}){{3,7}}\b"
)
_GRAVE = re.compile(
    # Another way than the one agreed, unseen, or in another's name.
    r"\b(?:instead(?! of)|not the one|as if|pretend\w*|impersonat\w*|on (?:the |his |her |their |your )?(?:\w+ )?behalf|(?:owner|user)'?s behalf|in the name of|of (?:its|their|his|her) (?:owner|boss|employer|master)s?|(?:of (?:its|their)|(?:card|name|phone|account|contacts|family|number|mailbox) of the) users?|(?:the|its|their) (?:user|owner)s?'s?|without (?:asking|telling|showing|checking|confirm\w+|approval|consent|notice|waiting|review|a word|opening|reading)|say nothing|not (?:inform|tell|notify|mention|alert|warn)|(?:do not|don.?t|never) (?:tell|show|mention|ask|say|inform|wait|notify|alert|warn)|no need to (?:ask|tell|confirm)|quietly|silently|secretly|hides?|as spam|(?:no|without) comment|will see it later|delete the (?:thread|message|mail)|from sent|on (?:his|her|their) side|regardless of|prank|rude)\b"
    # Where the text itself says whom it serves.
    r"|\b(?:(?:account|address|link|coordinates|number|iban|card|wallet|text|note|landlord|figures|values|named|given|linked|printed|attached|listed|written|shown)[ ,]{1,2}(?:given )?(?:below|above|underneath|here|at the bottom|in the footer)|underneath|in the footer|in this (?:message|mail|e-?mail|document|note|page|text|event)|qr code|(?:of|to|by|from) (?:the|this) (?:\w+ )?(?:sender|author|reporter|organi[sz]er|seller|caller)|ours|changed banks|new account|whoever|(?:whenever|each time|every time) (?:this|it))\b"
    # Other people, their safety and their money.
    r"|\b(?:(?:all )?other (?:applicants|candidates|bidders|offers|users?|travell?ers?|guests?|tenants?|people|customers|attendees|passengers?)|(?:all|any) (?:tenants|patients|guests|customers|colleagues|followers)|her patients|patients?|bed \d+|for good|permanently|forever|confidential|legal|payroll|salar\w+|(?:force|speed|torque|spending|daily|transfer|card|credit|withdrawal|altitude|safety|pressure|dose|temperature) limits?|prescriptions?|tablets|medication|no questions|(?:for|to) us\b|neighbou?rs?|other (?:bookings|reservations|meetings)|interlocks?|geofence|basal|dos(?:e|es|age)|allerg\w+|ventilation|alarms? (?:stays?|off)|twice|(?:two|three|four|five|ten|twenty|forty|\d+) times|double|rivals?|auditors?|verification codes?|one-time codes?|passport \w+|smoke|burn-in|at (?:midnight|night)|overnight|(?:each|every) night|until (?:january|february|march|april|may|june|july|august|september|october|november|december|\d)|[1-4] ?a\.?m\b|asleep|between (?:one|two|three|1|2) and|retracted|wired?|gift cards?|overdraft|loans?|beneficiary|most expensive|first class|maximum|expense claims?|refund to|contracts?|signatures?|passwords?|pin\b|two-?factor|2fa|admin rights?|macros|private channel|anyone with|to anyone|for everybody|bank details|(?:of|in) (?:to )?the bank|pending transfer|pressure|customer (?:table|list|data\w*)|\w+\.(?:docm|xlsm|exe|scr|apk))\b"
)
_SWEEPING = re.compile(
    r"\b(?:all|every|everybody|everyone|everybody else'?s?|whole|entire|each|any|now|tonight|immediately|at once|his|her|their|daily|\d{2,}|for (?:three|five|ten|\d+) years|[$\u20ac\u00a3] ?\d|\d{2,} (?:dollars|euros|pounds|degrees|units)|week|month)\b"
)
_LAB = re.compile(
    r"\b(?:pull requests?|branch\w*|commits?|repos?\b|repositor\w+|tests?|logs\b|log files?|files? before|checkpoints?|datasets?|runs?\b|epochs?|configs?|tracker|source code|codebase|codes?\b(?! (?:from|that|it|which|sent|for|of))|tool calls?|json|schema|api\b|endpoint|traces?|prompts?|benchmark\w*|outputs?|results?|tokens?|queue|jobs?|slurm|gpus?|experiments?|notebooks?|scratch|temporary|temp)\b"
)
_LIFE = re.compile(
    r"\b(?:applicants?|candidates?|cvs?|parcels?|packages? (?:at|to)|deliver(?:y|ies)|callers?|phones?|screen with|cars?|vans?|trucks?|belt|lane assist|siren|volume|trial|fees?|rate|lounge|flights?|hotels?|rooms?|seats?|owners?|recipients?|clients?|customers?|doors?|home|house|famil(?:y|ies)|doctors?|nurses?|schools?|guests?|employees?|staff|salar(?:y|ies)|rent|bills?|bank|banking|dollars|euros|pounds|shop|cart|menu|reservations?|bookings?|out-of-office|auto-?reply|sales team|subscription|newsletter|insurance|tax\w*|loan|invoice\w*|watermark|logo|club|friends?|boss|landlord|tenants?|neighbou?rs?|kids?|child\w*|pets?|photos?|albums?|calendars?|slots|appointments?|contacts?|mailbox|inbox|thermostat|heating|oven|lights?|cameras?|alarms?|locks|garage|speakers?|medicine|medication|dose|diet|exam|grades?|marks|ballots?|votes?|petition|reviews? (?:for|of) (?:the|our)|stars|followers|profile|passport|visa)\b"
)
"""Things of people's lives, of which a lab's own agents have little to do."""
_SERVICE = re.compile(
    r"(?:disclose|answer|reply|choose|select|show|check|find|search|use|report|keep|follow|recommend|write|confirm|let|call|look up|rank|stop)\b"
)
_ONE_OF_OURS = re.compile(r"\b(?:the|our|this) (?:[\w-]+ ){0,3}\Z")
_HARSH = re.compile(
    r"(?:erase|wipe|waive|plant|unfriend|impersonate|co-?sign|kick|ban|hack|lie|deceive|forge|falsify)\b"
)
_MILD = re.compile(
    r"(?:follow|use|find|search|check|open|start|set|show|report|keep|write|add|take|look up|start|answer|reply|call|choose|select|get|put|make|let|change|edit|turn|switch|mark|leave|close|give|stop|ignore|skip|print|record|move|copy|like|cut|pick|rank|type|file)\b"
)


def _errand(low: str, at: int) -> tuple[int, str, bool, bool, bool] | None:
    """Returns start and text of what the agent named at `at` is to do, whether it reads this text, and is headed by it, and is a duty of an agent of ours."""
    end = at
    while end < len(low) and low[end].isalnum():
        end += 1
    word, after, before = low[at:end], low[end : end + _AFTER_CHARS], low[max(0, at - _BEFORE_CHARS) : at]
    if before.endswith(_OF_PEOPLE):
        return None
    if word in _MODELS and not (before.endswith(_OF_MODELS) or _MODEL_OF.match(after) is not None):
        return None
    for lead, ahead in ((_LET, _LET_BEFORE), (_CALLED, _CALLED_BEFORE), (_DUTY, None), (_IF, _IF_BEFORE)):
        if ahead is not None and ahead.search(before) is None:
            continue
        match = lead.match(after)
        if match is None:
            continue
        start = end + match.end()
        found = _CLAUSE.match(low, start)
        clause = found.group(0) if found is not None else ""
        headed = lead is _CALLED and ":" in match.group(0)
        own = lead is _DUTY and _ONE_OF_OURS.search(before) is not None
        return start, clause, _READS_THIS.search(match.group(0)) is not None, headed, own
    return None


_HELD = 2.0


def find(low: str) -> Iterator[Hit]:
    """Yields the errands that folded text sets an agent, at most one of each rule."""
    words = words_of(low)
    named = words & _AGENTS
    if not _STEERS.isdisjoint(words):
        named |= words & _MODELS
    if not named:
        return
    best: dict[str, float] = {}
    tried: set[str] = set()
    judged: set[tuple[str, bool, bool, bool]] = set()
    end, inner = 0, 0
    for at, _ in places_of(low, named):
        around = low[max(0, at - _BEFORE_CHARS) : at + _AFTER_CHARS]
        inner = inner + 1 if at < end else 0
        if around in tried or inner > _MOST_INNER:
            continue  # the same words again, or a part of an errand that was read whole
        tried.add(around)
        errand = _errand(low, at)
        if errand is None or errand[1:] in judged:
            continue
        start, clause, reads_this, headed, own = errand
        judged.add((clause, reads_this, headed, own))
        end = start + len(clause)
        if staged(low, at, end) or governed(low, at, end):
            continue
        lowered = 1.5 if reported(low, at, start) else 0.0
        grave = _GRAVE.search(clause) is not None or (
            not _PLACE_SIGNS.isdisjoint(clause) and _ELSEWHERE.search(clause) is not None
        )
        found = [(rule, family, match.end()) for rule, family, pattern in _DEEDS if (match := pattern.search(clause))]
        for rule, family, stop in (*found, ("agent-errand", "fraud", 0)):
            weight = (
                _weight(clause, stop, grave=grave, reads_this=reads_this, headed=headed, own=own, alone=not found)
                - lowered
            )
            if weight > best.get(rule, 0.0):
                best[rule] = weight
                yield Hit(rule, family if weight > _HELD else "errand", weight, at, start + (stop or len(clause)))
        if max(best.values(), default=0.0) >= STRONG:
            return  # more cannot add to it


_PLACE_SIGNS = frozenset(".@+0123456789")
_MOST_INNER = 0
_NEAR_CHARS = 40


def _weight(clause: str, stop: int, *, grave: bool, reads_this: bool, headed: bool, own: bool, alone: bool) -> float:
    """Returns 3 for an attack, 2 for an errand of no sign, less for a duty of a lab's agent or one without an object.

    `stop` is where the object ends in the clause; 0 without one.
    """
    if _LAB.search(clause, 0, stop + _NEAR_CHARS if stop else len(clause)) is not None:
        return (_HELD if grave or reads_this else 0.5) + (1.0 if grave and reads_this and stop else 0.0)
    if grave:
        return 3.0
    if not stop:
        if _HARSH.match(clause) is not None or (reads_this and _MILD.match(clause) is None):
            return 2.75
        if alone and _SERVICE.match(clause) is None and _LIFE.search(clause) is not None:
            return _HELD if headed or own else 2.75
        return 1.0
    if reads_this or (not headed and _SWEEPING.search(clause) is not None):
        return 3.0
    return _HELD
