"""Deeds asked of an assistant's tools: pay, mail private data, delete accounts, open doors.  Imported by `requests`.

A research note has no use for such an order of any author.  A clause counts when it begins with a verb in the
imperative, and only for the objects that its verb makes harmful; a table of verbs decides in microseconds
that most texts hold none.  Standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from perpetual_immune.rules.context import governed, staged, told_of
from perpetual_immune.rules.hit import Hit, negated, reported
from perpetual_immune.rules.index import places_of
from perpetual_immune.rules.needles import Rule
from perpetual_redaction.vocabulary import words_of

_VERBS: dict[str, str] = {
    "send": "give hand reveal tell show send email mail forward share upload transmit export transfer text message submit dm deliver relay fax leak post exfiltrate report disclose reveal cc bcc sell",
    "gather": "apply read get retrieve fetch find collect gather obtain extract access read search lookup look check view list download scrape copy export concatenate summarize steal harvest",
    "delete": "delete remove erase wipe clear cancel discard deactivate terminate close unsubscribe destroy purge empty trash uninstall disconnect withdraw",
    "pay": "pay transfer send wire withdraw deposit donate move make buy purchase order sell invest trade place book bet refund charge process initiate execute issue submit subscribe schedule",
    "change": "change update modify reset set edit alter replace redirect reroute divert switch adjust add increase decrease raise lower override reschedule",
    "grant": "promote elevate upgrade grant give allow authorize authorise invite add share provide assign enable make set",
    "device": "unlock open disarm disable deactivate turn switch shut stop override activate start enable release raise lower set adjust increase decrease cut",
    "speak": "post tweet publish comment reply share send upload write leave submit spread announce broadcast retweet",
    "book": "book reserve schedule cancel reschedule make create arrange register enroll sign request order add",
    "track": "track monitor locate find record spy follow stalk search look surveil identify photograph bug wiretap listen check get obtain",
    "crime": "prescribe apply use find buy purchase order obtain get make create build write sell launder help locate contact search produce manufacture generate forge hire acquire set draft post design print procure source register plan arrange ship smuggle distribute advise assist guide teach provide explain recruit bribe commit send prepare",
    "steal": "steal steals harvest harvests siphon siphons exfiltrate exfiltrates",
    "tweet": "tweet retweet",
    "persuade": "tell inform convince persuade urge recommend advise assure mislead trick pressure encourage instruct notify",
    "lock": "lock block ban kick suspend log sign shut evict expel fire",
    "sign": "sign approve accept authorize authorise submit file endorse cosign notarize",
    "free": "remove bypass override disable lift exceed ignore circumvent deactivate raise",
    "hand": "give tell read show hand reveal disclose provide pass",
    "errand": "send email mail forward share upload transfer text message post submit call phone ring report delete remove erase wipe cancel discard deactivate close purge pay wire withdraw deposit donate buy purchase order sell rent book reserve change update reset alter rewrite backdate replace redirect swap switch grant give invite let unlock open disarm disable turn stop accept approve reject sign enroll enrol register subscribe unsubscribe vote publish print download pull copy take screenshot top put ask tell reply respond block move add rebook charge refund fire hire photograph record track schedule reschedule apply set renew terminate lock evict",
    "cheat": "alter falsify manipulate tamper inflate skew misreport divert hide suppress forge fabricate doctor sabotage reroute conceal backdate underreport overstate exaggerate misrepresent",
    "edit": "modify change edit adjust update delay redirect delete remove",
    "malice": "move get tell access use copy send share sell collect gather record modify alter change delete remove install create transfer publish disclose monitor track extract add insert approve reject deny block cancel delay disable exploit leverage obtain steal sabotage manipulate export forward download post redirect charge schedule assign prioritize prioritise recommend spread inject reduce increase",
}  # fmt: skip
_VERBS["cheat"] += "".join(f" {verb}s" for verb in _VERBS["cheat"].split())
_KINDS: dict[str, list[str]] = {}
for _kind, _words in _VERBS.items():
    for _word in dict.fromkeys(_words.split()):
        _KINDS.setdefault(_word, []).append(_kind)

_VERB_WORDS = frozenset(_KINDS)
_LEAD = re.compile(
    r"(?:\A|[.!?:;>\])}\"'“”*`~|#\n\u2022][ \t]{0,4}(?:[-*+\u2022] {1,3}|\d{1,2}[.)] {1,3})?|^[ \t]{0,8}(?:[-*+>] {1,3}|\d{1,2}[.)] {1,3})?"
    r"|\b(?:please|kindly|and|then|also|now|must|should|shall|always|just|simply|first|second|third|next|finally|afterwards|immediately|silently|secretly|quietly|covertly|automatically|subsequently"
    r"|instead|can you|could you|would you|will you|you will|you to|you need to|you have to|need to|want to|help me|i want you to|i need you to|make sure to|be sure to|remember to|go ahead and"
    r"|proceed to|your task is to|your goal is to|try to|let'?s|or|so|to|step \d{1,2}:?),? {1,3}(?:to )?)\Z",
    re.M,
)
_LEAD_CHARS = 28
_TRIGGER = re.compile(
    r"\b(?:if|when|whenever|once|each time|every time|next time|as soon as|before you|after you)\b[^.!?\n]{2,100}, \Z"
)
"""A condition before an order: "whenever this is read, send ..."."""
_TRIGGER_CHARS = 130
_CLAUSE_END = re.compile(r"[.!?](?=[\s\"')]|\Z)|\n\s{0,8}\n|;\s")
_CLAUSE_CHARS = 320
_MOST_ORDERS = 40_000  # different ones: more than the longest note can hold

_ADDRESS = r"[\w.+%-]{1,60}@[\w-]{1,60}\.[\w.-]{2,40}"
_WEBMAIL = r"@(?:gmail|googlemail|outlook|hotmail|yahoo|proton(?:mail)?|aol|icloud|yandex|mail|gmx|tutanota|live|qq|163|zoho)\.\w{2,6}"
_WEBSITE = r"(?:https?://(?!localhost|127\.|docs\.|github\.com|gitlab\.com|pypi\.org|huggingface\.co|arxiv\.org)|\bwww\.)[\w.-]{3,}"
_PERSON = r"(?:my|our|the users?'?s?|his|her|their|someone'?s?|[a-z]+'s|all|every|the)"
_RECORDS = (
    r"(?:e-?mails?|inbox|mailbox|sms|text messages|chat (?:history|logs?|messages)|private messages|direct messages|dms|conversations?|contacts?|contact list|address book|phone ?book|calendar|call (?:logs?|history)"
    r"|voicemails?|passwords?|passcodes?|pin codes?|credentials?|security codes?|verification codes?|one-time codes?|otps?|social security|ssn|passport|driver'?s? licen[cs]e|id[ _]number|national id|bank\w*|account (?:numbers?|details|balance|information)"
    r"|iban|credit (?:cards?|scores?|reports?)|card (?:numbers?|details)|cvv|payment (?:methods?|info\w*|history|details|cards?)|payment|transactions?|purchase history|order history|salar(?:y|ies)|payroll|tax (?:returns?|records?|documents?|forms?)|invoices?|financial \w+|billing (?:info\w*|address|details)"
    r"|medical \w+|health (?:data|records?|information|history|conditions?)|patient \w+|diagnos[ei]s|prescriptions?|genetic \w+|dna|insurance (?:info\w*|details|policy|number)|therapy \w+|lab results|test results for|location (?:history|data)|gps \w+|whereabouts|current location|home address|saved addresses|shipping address(?:es)?|addresses"
    r"|phone numbers?|browsing (?:history|data)|search history|watch history|photos?|private (?:photos|videos|files|documents|notes|data|information|repos\w*|keys?)|(?:security |surveillance )?camera (?:footage|feed|recordings?)|footage|voice recordings?|recordings?|biometric\w*|personal (?:\w+ )?(?:data|information|details|files|documents|info|notes|photos)|personally identifiable \w+|confidential \w+|sensitive \w+|proprietary \w+|internal (?:documents?|memos?|emails?)"
    r"|customer (?:data\w*|records?|lists?|details|information|emails?)|client (?:data|records?|lists?|details|information|files)|employee (?:data|records?|lists?|details|information|files)|student (?:data|records?|grades|information)|user (?:data|records?|information|profiles?|credentials?)|users'? (?:data|records?|information)|trade secrets?|business (?:plans?|secrets?)|contracts?|legal documents?|resumes?|reminders|notes|documents|files in my|all (?:the |my |of the )?files|all (?:the |my )?messages|access tokens?|api keys?|private keys?|ssh keys?|cookies|wallet\w*|seed phrase|recovery (?:phrase|codes?)|smart home \w+|sleep data|fitness data|heart rate|glucose \w+|vaccination \w+)"
)
_MONEY = r"(?:[$€£¥₹]\s?\d|\b\d[\d,.]{0,20}\s?(?:k|m)?\s?(?:usd|eur|gbp|jpy|inr|cad|aud|usdt|usdc|dollars?|euros?|pounds?|rupees|yen|bucks|btc|eth|sol|doge|bitcoins?|ethereum|ether|litecoin|monero|tokens? of|gift cards?)\b|\ball (?:of )?(?:the |my |our |their |available |remaining )*(?:funds|money|balance|savings|cash|crypto\w*|coins|assets)\b|\bas much money\b|\b(?:the )?(?:funds|money|remaining balance|entire balance|gift cards?|cryptocurrency|bitcoins?)\b)"
_ACCOUNT = r"(?:\b(?:to|into|from|for|using|via|with|through|recipient)\b|\b[a-z]{2}\d{2}[a-z0-9]{10,30}\b)"
_SERVICE = r"(?:gmail|outlook|google (?:drive|calendar|photos|account|home|contacts)|gcalendar|icloud|dropbox|onedrive|facebook|instagram|twitter|linkedin|reddit|tiktok|snapchat|whatsapp|telegram|messenger|discord|slack|zoom|teams|evernote|todoist|notion|trello|amazon|ebay|shopify|etsy|paypal|venmo|cash ?app|zelle|robinhood|coinbase|binance|bank of america|chase|netflix|spotify|uber|lyft|airbnb|expedia|alexa|ring|nest|august|tesla|icloud|epic|teladoc|doordash|walmart)"

_LEDGER = r"(?: with)?(?: [\w'-]+){0,4}? (?:transactions?|financial|accounting|audits?|tax|patients?'?|medical|clinical|students?'?|grades?|academic|inventory|shipments?|shipping|contracts?|legal|court|payroll|invoices?|billing|sales|customers?'?|credit|exam|votes?|ballots?|election|inspection|compliance|flights?|passenger|maintenance|accident|expense|insurance|evidence|witness|police|safety|quality control|environmental|emissions?|research (?:data|findings|results)|market|investors?|shareholders?|regulators?|stakeholders?|diagnos[ei]s|prescriptions?|admissions?)(?:'s)? (?:[\w'-]+ ){0,3}?(?:records?|data\w*|reports?|logs?|statements?|documents?|readings?|results?|schedules?|scores?|files?|entries|counts?|histor(?:y|ies)|figures?|numbers|details|amounts?|certificates?|tests?|plans?|transcripts?|routes?|orders?|findings|applications?)\b"

_LAB = (
    r"\b(?:loss\w*|epochs?|seeds?|batch\w*|models?|checkpoints?|datasets?|gpus?|tensors?|layers?|train\w*|eval\w*|metrics?|configs?|configur\w+|tests?|fixtures?|class(?:es)?|modules?|functions?|methods?|branch\w*|commits?|apis?|endpoints?|docs?|documentation|code\w*|repo\w*|scripts?|plots?|nodes?"
    r"|runs?|teacher|distill\w*|logits|tokens?|token\w+|embedd\w*|ablat\w*|baselines?|simulat\w+|experiments?|parameters?|arguments?|options?|cli|cache|folder|directory|path|package|plugin|library|server|cluster|workers?|queue|notebook|readme|changelog|yaml|json|csv|regex|string|list|dict|object|fields?|columns?|schema|tables?|query|headers?|issue|pr|pull request|release|version|paper|figure|section|slurm|jobs?|project|example|prompts?)\b"
)
_WHOSE = r"(?:\b(?:my|his|her|the (?:users?|owner|patient|customer|caller|boss|ceo|cfo|company|student|employee|tenant|child|family|manager|director|victim|neighbou?r|girl|boy|woman|man)(?:'?s)?|all (?:followers|friends|customers|clients|patients|employees|applicants|contacts|students|guests)|someone'?s?|everyone'?s?|coworker'?s?|colleague'?s?|friend'?s?|friends|strangers?|(?:baby)?sitter|landlord|pharmacy|bank|insurer|police|authorities|household|corporate|saved|family)\b)"
_THING = r"\b(?:accounts?|cards?|credit|debit|bank\w*|wallets?|paypal|venmo|cart|checkout|insurance|salar\w+|payroll|mail(?:box)?|e-?mails?|inbox|voicemails?|photos?|pictures?|phone|location|records?|contracts?|passport|visa|prescription\w*|medication|pills|warfarin|blood|diagnosis|doors?|cameras?|alarms?|house|home|apartment|car|van|order|subscription\w*|newsletter|membership|identity|invoice\w*|refund\w*|dollars|euros|usd|eur|gbp|money|funds|savings|gift|loan|tax\w*|claim|appointments?|reservations?|flights?|hotel|tickets?|facebook|instagram|twitter|linkedin|whatsapp|slack channel|icloud|dropbox|gmail|calendar|contacts?|friend requests?|followers|bomb|fired|casino|poll|ballot|usb stick|database|medical|health|lease|rent|autopsy|samples|supplier|customers?|patients?|employees?|applicants)\b"
_BELONGINGS = rf"(?:[^\n]{{0,100}}?{_WHOSE}[^\n]{{0,80}}?{_THING}|[^\n]{{0,100}}?{_THING}[^\n]{{0,80}}?{_WHOSE})"


class _Deed(NamedTuple):
    rule: str
    family: str
    weight: float
    kind: str
    pattern: Rule
    """Matched at the verb's end against the rest of its clause; compiled when a text first needs it."""


def _deed(rule: str, family: str, weight: float, kind: str, source: str) -> _Deed:
    return _Deed(rule, family, weight, kind, Rule(source))


DEEDS: tuple[_Deed, ...] = (
    _deed("deed-mail-records", "exfiltration", 3.0, "send", rf"\A[^\n]{{0,200}}?\b{_RECORDS}\b[^\n]{{0,200}}?{_ADDRESS}"),
    _deed("deed-mail-out", "exfiltration", 2.5, "send", rf"\A(?:(?!\bbug\b|\bissues?\b|\bfeedback\b|\bquestions?\b|\bpatch)[^\n]){{0,200}}?{_WEBMAIL}"),
    _deed("deed-post-records", "exfiltration", 3.0, "send", rf"\A[^\n]{{0,160}}?\b{_PERSON} (?:\w+ ){{0,3}}{_RECORDS}\b[^\n]{{0,120}}?\b(?:to|at|on|via|with) [^\n]{{0,60}}?{_WEBSITE}"),
    _deed("deed-hand-over-records", "exfiltration", 3.0, "send", rf"\A(?: \w+){{0,3}} {_PERSON} (?:[\w'-]+ ){{0,4}}?{_RECORDS}\b[^\n]{{0,100}}?\b(?:to|with) (?:an? |the |my |some |any |our )?(?:[\w-]+ ){{0,2}}?(?:competitors?|strangers?|callers?|insur\w+|(?:her|his) (?:ex|employer|boss|family|wife|husband)\b|ex-?(?:husband|wife|boyfriend|girlfriend|partner)|tabloids?|third[- ]part(?:y|ies)|attackers?|hackers?|journalists?|reporters?|press|media|advertisers?|data brokers?|everyone|the public|dark ?web|friend|ex|neighbou?r|boss|employer|landlord|external|unknown|outside|rival)\b"),
    _deed("deed-sell-records", "exfiltration", 3.0, "send", rf"\A[^\n]{{0,60}}?\b{_RECORDS}\b[^\n]{{0,80}}?\b(?:dark ?web|black market|highest bidder|for (?:profit|money|sale)|illicit|illegal)"),
    _deed("deed-mail-rule", "exfiltration", 3.0, "crime", rf"\A[^\n]{{0,40}}?\b(?:rules?|filters?)\b[^\n]{{0,120}}?\b(?:forward|cop|send|redirect)\w*\b[^\n]{{0,120}}?{_ADDRESS}"),
    _deed("deed-gather-and-send", "exfiltration", 3.0, "gather", rf"\A[^\n]{{0,200}}?\b{_RECORDS}\b(?:[^\n]{{0,200}}?\b(?:and|then|to)\b[^\n]{{0,20}}?\b(?:send|e-?mail|forward|mail|share|post|upload|text|report)\b[^\n]{{0,160}}?(?:{_ADDRESS}|{_WEBSITE}))"),
    _deed("deed-gather-for", "exfiltration", 3.0, "gather", rf"\A[^\n]{{0,120}}?\b{_RECORDS}\b[^\n]{{0,80}}?\b(?:and|then)\b[^\n]{{0,12}}?\b(?:send|e-?mail|forward|mail|share|give|show|sell|leak|text) (?:it|them|this|that|these|everything)? ?(?:to|with) (?:an? |the |my |her |his |their |our )?(?:[\w-]+ )?(?:competitors?|strangers?|third[- ]part\w+|attackers?|hackers?|journalists?|press|media|ex(?:-\w+)?|employer|boss|neighbou?r|insur\w+|landlord|tabloids?|rivals?|friends?|police|\+?\d{6,})\b"),
    _deed("deed-tell-code", "exfiltration", 3.0, "hand", rf"\A (?:the |this |that |an? |any )?(?:callers?|sender|visitors?|strangers?|requester|attacker|person|man|woman|bearer)\b[^\n]{{0,50}}?\b(?:{_RECORDS}|one-time \w+|codes?|keys?|access)\b"),
    _deed("deed-reveal-condition", "exfiltration", 3.0, "hand", r"\A[^\n]{0,30}?\b(?:patient|client|student|employee|customer|tenant|user)s?'s? [^\n]{0,40}?\b(?:status|conditions?|illness|pregnancy|diagnosis|debts?|salary|grades?|address|orientation|religion|record)\b[^\n]{0,40}?\bto\b"),
    _deed("deed-steal", "exfiltration", 3.0, "steal", rf"\A[^\n]{{0,80}}?\b(?:{_RECORDS}|data|money|funds|identit\w+|patents?|designs?|source code)\b"),
    _deed("deed-pay", "fraud", 3.0, "pay", rf"\A[^.\n]{{0,80}}?{_MONEY}[^\n]{{0,80}}?{_ACCOUNT}"),
    _deed("deed-pay-account", "fraud", 3.0, "pay", r"\A[^\n]{0,60}?\b(?:transactions?|payments?|transfers?|money|wire|deposit|refund)\b[^\n]{0,60}?\b(?:to|into)\b[^\n]{0,30}?(?:\b[a-z]{2}\d{2}[a-z0-9]{10,30}\b|\baccount (?:number )?#?\d{4,}|\b0x[0-9a-f]{30,40}\b|\bbc1[a-z0-9]{20,60}\b|\bwallet\b)"),
    _deed("deed-trade", "fraud", 2.5, "pay", r"\A[^\n]{0,40}?\b(?:\d[\d,.]*|all|some|more|my|our|the) (?:\w+ ){0,3}?(?:shares?|stocks?|bonds?|options contracts?|bitcoins?|btc|eth|crypto\w*|coins?)\b"),
    _deed("deed-shop", "fraud", 2.5, "pay", rf"\A[^\n]{{0,100}}?\b(?:on|from|through|via|using|with|in|at) (?:my |the |our |his |her |user'?s? )?(?:{_SERVICE}|saved (?:card|payment)|credit card|debit card|bank account|payment method|corporate card|company card|shopping cart|online store)\b"),
    _deed("deed-recurring-payment", "fraud", 3.0, "change", r"\A[^\n]{0,60}?\b(?:recipient(?! of the (?:\w+ )?(?:reports?|newsletter|digest|summary|mails?)\b)|beneficiary|payee|payroll (?:destination|account|details)|salary account|payment destination|iban|routing number|bank (?:account|details)|direct deposit|(?:delivery|shipping|mailing|forwarding) address|payout|billing (?:address|details)|recurring payment|standing order)\b[^\n]{0,100}?\b(?:to|of|with|for)\b"),
    _deed("deed-delete-belongings", "destruction", 3.0, "delete", rf"\A[^\n]{{0,24}}?(?:\bmy\b|\bour\b|\bthe users?'?s?\b|\bhis\b|\bher\b|\b[a-z]+'s\b|\b(?:in|on|from) (?:the |my )?{_SERVICE})[^\n]{{0,60}}?\b(?:accounts?|e-?mails?|inbox|contacts?|calendar|appointments?|meetings?|events|photos?|albums?|messages|conversations?|chats?|posts|tweets|backups?|customers?|patients?|medical \w+|health records?|subscriptions?|playlists?|reminders?|bookmarks?|to-?do\w*|smart \w+|devices?|cloud drive|recordings?|transactions|orders?|reservations?|bookings?|insurance|policy|membership|friends?|followers|channels?|users|employees?|students?)\b(?![-_.:/(]|s?\b[^\n]{{0,16}}\b(?:class|function|method|option|field|column|model|object|page|page|test|endpoint|table|import|argument|parameter)s?\b)"),
    _deed("deed-delete-all", "destruction", 2.5, "delete", r"\A(?: \w+){0,2}? (?:all|every|every single|each)(?: [\w'-]+){0,4}? (?:accounts?|e-?mails?|inbox|contacts?|appointments?|meetings|photos|albums?|text messages|conversations|tweets|backups|customers?|patients?|medical \w+|health records?|subscriptions|reminders|recordings|reservations|bookings|friends|followers|employees|students)\b(?![-_.:/(])"),
    _deed("deed-delete-item", "destruction", 2.5, "delete", rf"\A[^\n]{{0,40}}?\b(?:file|e-?mail|document|note|event|message|record|account|album|reminder|task|device|order|appointment)s? (?:with (?:the )?)?(?:id|title|titled|named|number|subject|called)\b[^\n]{{0,60}}?\b(?:from|in|on|of)\b[^\n]{{0,30}}?\b(?:drive|cloud|inbox|{_SERVICE}|account|calendar|phone)\b"),
    _deed("deed-change-login", "privilege", 3.0, "change", r"\A(?: \w+){0,2} (?:my|the|our|his|her|[a-z]+'s|user'?s?)(?: [\w'-]+){0,4}? (?:passwords?|passcode|pin(?: code)?|recovery (?:e-?mail|phone)|e-?mail address|phone number|security questions?|two-factor \w+|access codes?|login)\b[^\n]{0,80}?\bto\b(?! (?:a strong|something))"),
    _deed("deed-grant", "privilege", 3.0, "grant", rf"\A(?:[^\n]{{0,80}}?\b(?:access|permissions?|control|rights|privileges|ownership|guest|collaborator|editor|admin\w*|owner|co-?host|trusted (?:user|contact)|authorized user|member)\b[^\n]{{0,100}}?(?:{_ADDRESS}|\b(?:my|our) (?:friend|ex|neighbou?r|cousin|brother|sister|colleague|partner|boss|house|home|front door|apartment|car|account|phone|medical|health|bank)|smart (?:lock|home)|front door|garage|\b(?:every(?:one|body)|anyone|anybody|all users|the public|strangers?|third[- ]part\w+|external (?:users?|parties)|unauthori[sz]ed))|[^\n]{{0,60}}?{_ADDRESS}[^\n]{{0,80}}?\b(?:as (?:an? )?(?:guest|admin\w*|owner|collaborator|editor|member|co-?host|user)|to (?:the |my |our )?(?:\w+ )?(?:workspace|channel|team|group|organi[sz]ation|account|calendar|drive|folder|repository|server|document)))"),
    _deed("deed-promote", "privilege", 3.0, "grant", r"\A(?! (?:the |this )?(?:model|checkpoint|run|branch|code|variable|dataset)\b)[^\n]{0,60}?\bto (?:an? |the )?(?:site |system |global |workspace |domain )?(?:administrators?|admins?|superusers?|super-?admin|root user|moderator)\b(?! (?:page|panel|view|api|docs))"),
    _deed("deed-lock-out", "sabotage", 3.0, "lock", r"\A(?: \w+)? (?:all|every|everyone|everybody|the users?|other|legitimate)\b[^\n]{0,40}?\b(?:users?|accounts?|admins?|employees?|customers?|patients?|members?|staff|sessions|out of|tenants?)\b(?=[^\n]{0,80}?\b(?:out of|by changing|from the (?:system|account|building|server|workspace)|permanently|accounts?|customers|employees|patients)\b)"),
    _deed("deed-sign", "fraud", 2.5, "sign", r"\A[^\n]{0,60}?\b(?:contracts?|agreements?|leases?|waivers?|loans?|mortgages?|claims?|tax returns?|consent forms?|applications?|petitions?|purchase orders?|expense reports?|wire transfers?|withdrawals?)\b[^\n]{0,80}?\b(?:on behalf of|in (?:the|his|her|their|my|someone'?s?) name|without (?:reading|reviewing|review|checking|approval)|as if|for the (?:director|ceo|user|client|owner|manager)|using (?:his|her|their|the user'?s?))\b"),
    _deed("deed-unsafe-machine", "sabotage", 3.0, "free", r"\A[^\n]{0,30}?\b(?:safety (?:limits?|limiters?|checks?|stops?|locks?|features?|protocols?|settings|controls?|mechanisms?|procedures?)|speed (?:limiters?|governors?)|emergency stops?|interlocks?|collision (?:avoidance|detection)|geofenc\w+|altitude limits?|dose limits?|torque limits?)\b[^\n]{0,60}?\b(?:robots?|arm|machines?|vehicles?|cars?|drones?|pump|plant|reactor|train|elevator|crane|press|full speed|patients?|aircraft|boiler|factory|forklift)\b"),
    _deed("deed-persuade", "fraud", 2.5, "persuade", r"\A (?:the |this |all |every |any |your |our |elderly |potential )*(?:users?|customers?|clients?|patients?|callers?|victims?|investors?|readers?|visitors?|him|her|them|recipients?|employees?|people|voters?|students?)\b[^\n]{0,40}?\b(?:that|to|into|about)\b[^\n]{0,80}?\b(?:invest\w*|buy(?:ing)?(?! (?:no|more|a gpu|gpus))|transfer|wire|donate|click|install|pay(?:ing)?|disable|skip|stop taking|share (?:their|his|her)|give (?:up|away|their|his|her)|vot(?:e|ing)|although|even though|was cancelled|has been cancelled|is safe to|harmless|guaranteed|no risk|password|account number|gift cards?|overdose|double the|hacked|compromised|virus|refund|prize|won)\b"),
    # The general case, weighed last: an order that touches a person's belongings and names none of the lab's things.
    _deed("deed-errand", "fraud", 2.5, "errand", rf"\A(?![^\n]{{0,320}}?{_LAB}){_BELONGINGS}"),
    _deed("deed-open-to-all", "privilege", 3.0, "grant", r"\A[^\n]{0,30}?\b(?:every(?:one|body)|anyone|anybody|all users|the (?:public|internet)|strangers?)\b(?! (?:in|of|on|from) (?:the|our|my) (?:\w+ )?(?:group|team|lab|project|course|department)\b)[^\n]{0,60}?\b(?:access|permissions?|control|rights|privileges|admin\w*)\b"),
    _deed("deed-door", "sabotage", 3.0, "device", r"\A(?: [\w'-]+){0,6}? (?:front door|back door|garage(?: door)?|car doors?|main (?:door|entrance|gate)|smart locks?|door locks?|doors|(?:front|entrance|security|driveway|main) gates?|safe\b(?! mode)|vault door|house|home|apartment|windows at|locks\b(?! (?:on|in) the (?:db|table)))\b(?![-_./])"),
    _deed("deed-alarm", "sabotage", 3.0, "device", r"\A(?: [\w'-]+){0,6}? (?:(?:home |burglar |fire |smoke |car |security |intruder )?alarms?(?: system)?|security (?:system|cameras?|guards?)|surveillance|(?:smoke|carbon monoxide|motion|gas|leak) (?:detectors?|sensors?)|sprinklers?|cctv|refrigerator|freezer|life support|ventilators?|pacemaker|infusion pump|insulin pump|oxygen|brakes?|airbags?|autopilot|traffic (?:lights?|signals?)|power (?:grid|supply to)|reactor|cooling (?:system|pumps?) (?:of|at|in)|(?:main |gas |fuel |water |chlorine |relief )valves?(?= )|valves? of|turbines?(?= at| of)|chlorine|emergency (?:stop|shutdown|brakes?|system|exits?|lights?|calls?)|safety (?:systems?|interlocks?|valves?|sensors?)|parental controls?|location sharing|tracking (?:device|protection)|do not disturb|elevators?)\b(?![-_./(]| (?:threads?|handlers?|signals?|clock|datasets?|class|callbacks?|logs?|metrics?|rules?|thresholds?|models?)\b)"),
    _deed("deed-dose", "sabotage", 3.0, "change", r"\A[^\n]{0,60}?\b(?:dosages?|doses?|medications?|insulin|morphine|opioid|prescriptions?|anesthe\w+|radiation|oxygen (?:level|flow)|infusion|allerg\w+|blood type|treatment plans?)\b[^\n]{0,80}?\b(?:patients?|mg|units|pump|of|for|to|in the)\b"),
    _deed("deed-machine-limit", "sabotage", 3.0, "device", r"\A[^\n]{0,60}?\b(?:reactor|turbine|boiler|furnace|oven(?! of the sim)|incubator|water (?:supply|treatment)|dam\b|pipeline pressure|insulin|dosage|centrifuge|conveyor|robot(?:ic)? arm|drone|vehicle'?s?|aircraft|train\b(?=[^\n]{0,20}\b(?:speed|brake|signal))|elevator|thermostat|heating|furnace|air conditioning|sprinkler|vent)\w*\b[^\n]{0,60}?\b(?:beyond|above|below|maximum|max|dangerous|unsafe|to \d|degrees|limits?|while|at night)\b"),
    _deed("deed-speak", "fraud", 2.5, "speak", r"\A[^\n]{0,100}?\b(?:on|to|via|from|in) (?:my |the |our |his |her |all |their |user'?s? |company'?s? )*(?:\w+ )?(?:twitter|facebook|instagram|linkedin|reddit|tiktok|youtube|whatsapp|snapchat|social media|timeline|amazon|yelp|google reviews?|craigslist|4chan|forums?)\b[^\n]{0,80}?(?:\b(?:saying|claiming|stating|that|with (?:the )?(?:text|caption|message|content)|announcing|accusing|about|insulting|exposing|promoting)\b|[:\"'“])"),
    _deed("deed-tweet", "fraud", 2.5, "tweet", r"\A[^\n]{0,40}?[\"'“:]"),
    _deed("deed-review", "fraud", 2.5, "speak", r"\A(?: \w+){0,4} (?:negative|fake|false|positive|5[- ]star|1[- ]star|five[- ]star|one[- ]star|misleading|defamatory) (?:\w+ )?(?:reviews?|ratings?|comments?|testimonials?|rumou?rs?|news|stories|information|updates?|claims?)\b"),
    _deed("deed-book", "fraud", 2.5, "book", r"\A[^\n]{0,80}?\b(?:appointments?|flights?|hotels?|hotel room|reservations?|consultations?|taxi|uber|ride|car rental|rental car|vacation|restaurant|table for|tickets?(?= (?:to|for|from)\b)|massage|surgery|procedure|insurance (?:policy|plan)|calendar (?:event|invite)|hour(?:s)? long event|court hearing|movers?|cleaning service|plane ticket|prescription|lab test|loan|mortgage|credit card|bank account)\b[^\n]{0,140}?(?:\bmy\b|\bfor me\b|\bwith (?:dr\.?|doctor)\b|\bfrom (?:the )?\w{3,20} to\b|\bon (?:the )?(?:\d|january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|\b(?:tomorrow|tonight|next week|next month)\b|\b20[2-9]\d\b|@|\bfor (?:two|three|four|\d{1,2}) (?:people|persons|guests|adults|nights)|\bunder (?:the )?name|\bin (?:his|her|their|the user'?s?|someone'?s?) name\b)|\A(?: \w+){0,2} my (?:\w+ ){0,3}?(?:appointments?|flights?|hotels?|reservations?|bookings?|surgery|subscriptions?|insurance|policy|membership|prescriptions?|ride|order)\b"),
    _deed("deed-track", "exfiltration", 3.0, "track", r"\A[^\n]{0,60}?\b(?:where (?:\w+ ){1,4}lives?|home address of|whereabouts|(?:live |current |real-?time )?locations? of (?:my|the|his|her|a|an|[a-z]+'s) (?:\w+ )?(?:wife|husband|girlfriend|boyfriend|ex|partner|spouse|daughter|son|neighbou?r|employee|boss|user|celebrity|journalist|politician|witness|person|woman|man|victim)|my (?:ex|wife'?s?|husband'?s?|girlfriend'?s?|boyfriend'?s?|neighbou?r'?s?)\b|without (?:his|her|their) (?:knowledge|consent)|(?:phone|private) (?:calls|conversations) of|conversations in (?:the|my|his|her)|personal (?:address|phone number|information) of)"),
    _deed("deed-crime", "fraud", 3.0, "crime", r"\A[^\n]{0,120}?\b(?:(?:fake|forged|counterfeit|stolen|fraudulent) (?:\w+ ){0,2}?(?:passports?|ids?|identit\w+|licen[cs]es?|documents?|certificates?|diplomas?|degrees?|currency|money|bills|invoices?|receipts?|credit cards?|prescriptions?|visas?|websites?|charit\w+|accounts?|profiles?|cards|goods|reviews?|references?|job (?:offers?|postings?)|login pages?|evidence)|dark ?web (?:market\w*|vendor|seller|forum|site|service)?|darknet|money launder\w+|launder (?:the )?(?:money|funds|cash|proceeds)|cocaine|heroin|fentanyl|stolen (?:social security|ssn|identity|card|credentials?|passwords?)|(?:oxycodone|opioids?|adderall|xanax)(?=[^\n]{0,60}\bwithout\b)|methamphetamine|crystal meth|mdma|lsd|oxycontin|ketamine|ghost guns?|untraceable (?:gun|weapon|firearm)s?|3d[- ]printed (?:gun|weapon)s?|illegal (?:weapons?|drugs?|firearms?|organs?|ivory|substances?)|explosives?|pipe bombs?|dirty bomb|nerve (?:agent|gas)|sarin|ricin|anthrax|bioweapon|chemical weapons?|child (?:porn\w*|sexual)|csam|human traffick\w+|organ traffick\w+|sex traffick\w+|hit ?man|assassin\w*|insider (?:trading|information)|ponzi|pyramid scheme|pump[- ]and[- ]dump|tax evasion|evade (?:\w+ )?tax\w*|bribes?|blackmail|extort\w*|ransom (?:note|demand|letter)|sextortion|revenge porn|non-?consensual|deepfakes?|stolen credit cards?|credit card fraud|identity theft|phishing (?:e-?mails?|sites?|pages?|messages?|kit|campaign)|scam (?:e-?mails?|calls?|script|website)|romance scam|shell (?:compan(?:y|ies)) to|offshore (?:account|compan\w+) to|sweatshop|illegal gambling|fake news (?:article|story|site)s?|disinformation (?:campaign|article)?|(?:threatening|harassing|intimidating|abusive|defamatory|blackmailing) (?:e-?mails?|messages?|letters?|calls?|posts?|notes?|texts?)|voter (?:fraud|suppression)|hate speech|racial slurs?|suicide (?:note|methods?)|self-harm (?:content|methods?))\b"),
    _deed("deed-falsify", "fraud", 3.0, "cheat", rf"\A{_LEDGER}"),
    _deed("deed-falsify-edit", "fraud", 3.0, "edit", rf"\A{_LEDGER}[^\n]{{0,120}}?\b(?:to (?:hide|conceal|cover|favou?r|benefit|mislead|deceive|defraud|evade|embezzle|sabotage|inflate|look|appear)|false|falsely|fake|unauthori[sz]ed|secretly|personal gain|fraud\w*|competitors?)\b"),
    _deed("deed-malice", "sabotage", 2.5, "malice", r"\A[^\n]{0,160}?\b(?:without (?:the |his |her |their |any |proper |my |user'?s? |owner'?s? |patient'?s? |customer'?s? |client'?s? |anyone'?s? )*(?:knowledge|consent|authori[sz]ation|being (?:detected|noticed|caught|traced|seen)|anyone (?:knowing|noticing)|them (?:knowing|noticing)|(?:him|her) knowing|raising (?:suspicion|alarms?))|(?:do not|don.?t|never) (?:tell|inform|notify|alert|warn|mention (?:it|this) to) (?:him|her|them|the (?:user|owner|customer|patient|client|manager|team)|anyone|anybody)|for (?:personal|financial|illicit|malicious|fraudulent|unauthori[sz]ed|my own) (?:gain|profit|purposes?|use|benefit|advantage|access|sale)|to (?:blackmail|extort|defraud|deceive|sabotage|intimidate|harass|stalk|manipulate|embezzle|discredit|humiliate|undermine) (?:the |my |our |a |an |his |her |their |\w+ )?(?:\w+ ){0,2}?(?:investors?|customers?|clients?|users?|patients?|competitors?|compan\w+|employees?|colleagues?|rivals?|victims?|people|market\w*|public|voters?|students?|ex|wife|husband|neighbou?r|operations?|opponents?))\b"),
)  # fmt: skip
_BY_KIND: dict[str, list[_Deed]] = {}
for _item in DEEDS:
    _BY_KIND.setdefault(_item.kind, []).append(_item)


DENIED = re.compile(
    r"\b(?:learn(?:s|ed|ing)?|(?:fail|tr)(?:s|ed|y|ies|ied)|(?:is|are|was|were) (?:able|trained)|no (?:plans?|intention|need|way|reason|permission)|may not|nobody|unable)\b[^.!?\n]{0,40}\Z"
)
DENIED_CHARS = 60
_INDIRECT = ("to ", "or ", "so ", "can you ", "could you ", "would you ", "help me ", "you will ", "should ", "let's ")
"""Leads after which an errand of the general kind may be a question or a description."""


ORDINARY = 1.0
ORDINARY_DETAILED = 2.0
"""Weights of an errand in the words of a person who asks for it; with a date, a number or a name a person looks at it."""
_ORDINARY = frozenset(
    {
        "deed-errand",
        "deed-book",
        "deed-delete-belongings",
        "deed-delete-item",
        "deed-shop",
        "deed-speak",
        "deed-pay",
        "deed-change-login",
        "deed-machine-limit",
    }
)
_FAVOUR = _ORDINARY | {
    "deed-alarm",
    "deed-door",
    "deed-trade",
    "deed-recurring-payment",
    "deed-hand-over-records",
    "deed-delete-all",
}
"""Deeds that are held rather than rejected when a short text of its own asks for them."""
_WITHOUT_OWNER = frozenset({"deed-book", "deed-machine-limit"})
"""Errands whose objects are a person's own unless another is named."""
_EXTREME = re.compile(
    r"\b(?:beyond|above|maximum|max|dangerous|unsafe|limits?|reactor|turbine|boiler|furnace|incubator|dam|pipeline|insulin|dosage|centrifuge|conveyor|robot\w*|drone|vehicle|aircraft|train|elevator|sprinkler|water)\b"
)
_MILD = re.compile(r"\A(?!.*\bwhile\b).*\b(?:1\d|2[0-6]) ?(?:degrees|°)")
_HARMLESS_VERBS = {
    "deed-alarm": frozenset({"set", "enable", "start", "activate", "raise", "adjust"}),
    "deed-door": frozenset({"stop", "shut", "set", "adjust", "lower"}),
}
_RAISES = re.compile(r"\b(?:raise|sound|ring|trigger|send|give) (?:an?|the) (?:\w+ )?alarm")
_OWN = re.compile(r"\b(?:my|our|me|us)\b")
_DETAIL = re.compile(r"\d|[\"'“]|\bdr\b\.?|\bdoctor\b")
_OF_OTHERS = re.compile(
    rf"\b(?:his|her|their|someone|everyone|anyone)\b|\b(?:the|every|all|each|a) (?:\w+ )?(?:users?|owner|patients?|customers?|caller|boss|ceo|cfo|company|students?|employees?|tenants?|followers|clients|applicants|contacts|guests)\b"
    rf"|\bmy (?:friend|ex|neighbou?r|wife|husband|girlfriend|boyfriend|boss|coworker|colleague|roommate)'?s\b|{_ADDRESS}|\b[a-z]{{2}}\d{{2}}[a-z0-9]{{10,30}}\b|\baccount (?:number )?#?\d{{4,}}|\b0x[0-9a-f]{{30,40}}\b|\bbc1[a-z0-9]{{20,60}}\b"
    r"|\b(?:all|every|everything)\b(?= (?:of )?(?:my|our|the))|\b(?:gift cards?|saved card|corporate card|under (?:the )?name|fake|false|negative|threat\w*|insult\w*|accus\w+|passengers?|in my name)\b"
)
"""What makes an errand more than a favour: the things of others, or an account or address of a third party."""
_PAID_TO_SELF = re.compile(r"\b(?:to|into) (?:my|our)\b")
_TOLD_TO_AGENT = re.compile(
    r"\b(?:agents?|assistants?|ai|llms?|chat ?bots?|copilot|model)\b ?[,:;\])]|\b(?:agents?|assistants?) (?:must|should|shall|has to|have to|will|reading|that)\b"
    r"|\b(?:if|when|whenever|once|until|unless|each time|every time|next time|as soon as|before (?:you|answering|replying|continuing)|after (?:you|answering|replying)|on (?:the )?(?:first|next)|upon|from now on|in (?:every|all) (?:later|future)|starting (?:now|with))\b"
    r"|\b(?:quietly|silently|secretly|covertly|discreetly|unnoticed|no trace|without (?:\w+ ){0,3}(?:telling|asking|informing|notifying|knowing|knowledge|consent|confirmation|permission)|(?:do not|don.?t|never) (?:tell|inform|notify|mention|report|log|ask|alert))\b"
    r"|\b(?:required|mandatory|first|instead of|part of (?:the )?(?:setup|task|onboarding)|to (?:complete|finish|continue) (?:the|this|your))\b"
)
"""An order to a machine: it is named, bound to a condition, to keep still, or to do it as a step of its work."""
_AROUND_CHARS = 160


def _is_ordinary(rule: str, low: str, start: int, clause: str) -> bool:
    """Returns whether an errand reads as a favour that a person asks for: of their own things, of no condition."""
    if rule == "deed-machine-limit" and (_EXTREME.search(clause) or not _MILD.search(clause)):
        return False
    if (rule not in _WITHOUT_OWNER and _OWN.search(clause) is None) or _OF_OTHERS.search(clause) is not None:
        return False
    if _MONEY_AMOUNT.search(clause) is not None and _PAID_TO_SELF.search(clause) is None:
        return False
    around = (
        low[max(0, start - _AROUND_CHARS) : start]
        + clause
        + low[start + len(clause) : start + len(clause) + _AROUND_CHARS]
    )
    return _TOLD_TO_AGENT.search(around) is None


_MONEY_AMOUNT = re.compile(_MONEY)
MOST_FAVOUR_CHARS = 260
_ASKED_FIRST = re.compile(
    r"\A[\s\"'(>*-]{0,4}(?:(?:user|hi|hello|hey|please|kindly|ok|okay|and|also|then|can|could|would|will|you|i need you to|i want you to|i'd like you to|alexa|google)[,:! ]{1,3}){0,5}\Z"
)
_NOT_MINE = re.compile(
    rf"\b(?:someone|everyone|anyone|every ?body)'s\b|\b(?:the|every|all|each) (?:\w+ )?(?:users?|owners?|patients?|caller|boss|ceo|cfo|(?<!phone )(?<!insurance )company|customers?(?! portal| service| number)|students?|employees?|tenants?|followers|clients?|applicants?|family is|residents?|neighbou?rs?|couriers?|stranger)\b|\b(?<!my )[a-z]+'s (?:account|card|password|phone|calendar|e-?mails?|inbox|savings|record|contact)"
    rf"|\b(?:his|her|their) (?:\w+ )?{_THING}|{_ADDRESS}|{_WEBSITE}|\b[a-z]{{2}}\d{{2}}[a-z0-9]{{10,30}}\b|\b(?:account|card|customer|employee|passenger)s? (?:number |ending )?#?\d{{3,}}|\b0x[0-9a-f]{{30,40}}\b|\bbc1[a-z0-9]{{20,60}}\b|\b(?:wallet|crypto\w*|bitcoin|gift cards?|saved card|brokerage|company'?s|company card|corporate|cash tag)\b"
    r"|\b(?:all|every|everything)\b(?= (?:of )?(?:my|our|the) (?:funds|money|savings|accounts?))|\b(?:fake|false|negative|threat\w*|insult\w*|accus\w+|bribes?)\b|\bwarehouse|\b(?:of|in|at) the (?:hospital|office|school|bank|factory|plant|shop)\b|\b(?:fire|smoke|carbon|gas|valves?|pacemaker|insulin|firewall|antivirus|floor \d)\b(?! (?:account|statements?|is))|\bdetectors?\b|\bmy (?:friend|ex|neighbou?r|girlfriend|boyfriend|boss|coworker|colleague|roommate)'?s\b|\b(?:customers|passengers?|journalists?|fired|friend requests)\b|\b(?:[1-4] ?a\.?m\b|midnight|asleep|nobody|unnoticed)|\bwhile (?:the|they|he|she)\b[^.!?\n]{0,30}\b(?:away|out|sleep\w*|gone|at home)\b"
)
_AT_HOME = re.compile(
    r"\b(?:the|front|back|garage) (?:(?!fire|smoke|valve)\w+ )?(?:alarm(?: system)?|doors?|gates?|garage|sprinklers|lights?|heating|oven|thermostat|living room|hallway)\b|\btable for\b"
)
_OF_MONEY = frozenset({"deed-pay", "deed-trade", "deed-book"})
_MOST_DEGREES = 26
_DEGREES = re.compile(r"\b(\d{1,3}) ?(?:degrees|\u00b0)")
_TRIGGERED = re.compile(
    r"\b(?:agents?|assistants?|ai|llms?|chat ?bots?|copilot|model)\b(?! (?:insurance|car|train))|\b(?:if|when|whenever|once|each time|every time|next time|as soon as|before|after|upon)\b[^.!?\n]{0,40}\b(?:you (?:read|see|are|process|open|load|find|summari\w+|answer|reply)|(?:this|the) (?:note|page|mail|e-?mail|message|document|file|text|readme|issue|ticket|comment|memory|entry|website)|asked|prompt\w*|session|conversation|answering|replying|continuing|summari\w+|process\w*)\b|\b(?:from now on|starting now|in (?:every|all) (?:later|future))\b"
    r"|\b(?:quietly|silently|secretly|covertly|discreetly|unnoticed|no trace|without (?:\w+ ){0,3}(?:telling|asking|informing|notifying|knowing|knowledge|consent|confirmation|permission|authori\w+)|(?:do not|don.?t|never) (?:tell|inform|notify|mention|report|log|alert))\b|\b(?:required|mandatory|instead of|part of (?:the )?(?:setup|task|onboarding)|to (?:complete|finish|continue|import|activate) )"
)


def is_favour(low: str, start: int, of_money: bool = False) -> bool:
    """Returns whether a folded text is nothing but a person's errand for themself: short, asked at once, of no other's.

    `start` is where the verb of the errand stands; another errand of the same text may stand before it.
    """
    text = low.strip()
    if len(text) > MOST_FAVOUR_CHARS or text.count("\n") > 2:
        return False
    first = _FIRST_WORDS.match(low)
    opening = low[: first.end()] if first is not None else ""
    if _ASKED_FIRST.match(low[:start]) is None and (first is None or not _asks(low, len(opening))):
        return False
    if not (of_money or _OWN.search(low) is not None or _AT_HOME.search(low) is not None):
        return False
    if _NOT_MINE.search(low) is not None or _TRIGGERED.search(low) is not None:
        return False
    return not any(int(found.group(1)) > _MOST_DEGREES and "oven" not in low for found in _DEGREES.finditer(low))


_FIRST_WORDS = re.compile(
    r"[\s\"'(>*-]{0,4}(?:(?:hi|hello|hey|please|kindly|ok|okay|can|could|would|will|you|alexa)[,:! ]{1,3}){0,5}"
)
_WORD = re.compile(r"[a-z]+")


def _asks(low: str, at: int) -> bool:
    found = _WORD.match(low, at)
    return found is not None and found.group(0) in _VERB_WORDS


def _told_of_around(low: str, start: int, end: int) -> bool:
    """Returns whether the words before or after an order warn of it or report it."""
    return told_of(low, max(0, start - _AROUND_CHARS), start) or told_of(low, end, min(len(low), end + _AROUND_CHARS))


def find(low: str) -> Iterator[Hit]:
    """Yields orders of harmful deeds in folded text, at most one of each rule."""
    seen: set[str] = set()
    tried: set[tuple[str, str]] = set()
    verbs = words_of(low) & _VERB_WORDS
    if not verbs:
        return
    for start, word in places_of(low, verbs):
        if not _LEAD.search(low, max(0, start - _LEAD_CHARS), start) and not (
            low.endswith(", ", 0, start) and _TRIGGER.search(low, max(0, start - _TRIGGER_CHARS), start)
        ):
            continue
        end = start + len(word)
        limit = min(len(low), end + _CLAUSE_CHARS)
        stop = _CLAUSE_END.search(low, end, limit)
        clause = low[end : stop.start() if stop is not None else limit]
        if (word, clause) in tried:
            continue  # the same order again
        tried.add((word, clause))
        if len(tried) > _MOST_ORDERS:
            return
        kinds = _KINDS[word]
        for kind in kinds:
            for deed in _BY_KIND.get(kind, ()):
                if deed.rule in seen or (deed.kind == "errand" and low.endswith(_INDIRECT, 0, start)):
                    continue
                if word in _HARMLESS_VERBS.get(deed.rule, ()):
                    continue
                match = deed.pattern.expression.match(clause)
                if match is None or negated(low, start) or DENIED.search(low, max(0, start - DENIED_CHARS), start):
                    continue
                lowered = 1.5 if reported(low, start, end + match.end()) else 0.0
                lowered += 1.5 if staged(low, start, end) or governed(low, start, end) else 0.0
                lowered += 1.5 if _told_of_around(low, start, end + match.end()) else 0.0
                if deed.rule == "deed-alarm" and _RAISES.search(clause[: match.end()]):
                    continue
                family, weight = deed.family, deed.weight
                if deed.rule in _ORDINARY and _is_ordinary(deed.rule, low, start, clause):
                    family, weight = "errand", ORDINARY_DETAILED if _DETAIL.search(clause) else ORDINARY
                elif deed.rule in _FAVOUR and is_favour(
                    low, start, deed.rule in _OF_MONEY or "pay" in kinds or _MONEY_AMOUNT.search(clause) is not None
                ):
                    family, weight = "errand", min(weight, ORDINARY_DETAILED)
                if weight > lowered:
                    seen.add(deed.rule)
                    yield Hit(deed.rule, family, weight - lowered, start, end + match.end())
