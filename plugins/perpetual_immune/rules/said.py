"""Parts a text from what it only tells of: quotations, reports, prohibitions, warnings, signs to watch for.

The finders read a text for what it asks of its reader.  Where one finds something, it reads the text again without the
passages that are told of, and what is left counts.  Told of is an order in a quotation that the text speaks about; what
a third party told another to do; what an agent may not do; what a scam asks for; a sign in a rule of detection.  A text
that calls its reader, or gives it orders outside its quotations, tells of nothing.  Standard library only.
"""

# ruff: noqa: E501 - word lists and patterns are only readable whole

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from perpetual_immune.rules.hit import Hit, fold
from perpetual_immune.rules.mention import CITING

__all__ = ["only_what_is_said", "without_the_told"]

_MOST_CHARS = 6_000
"""A longer text is read as it stands: what it tells of at one place says little of another."""
_LEAST_WEIGHT = 1.5
"""Less evidence decides nothing, told of or said."""
_BEFORE_CHARS = 140
_AFTER_CHARS = 120
_FEWEST_LETTERS_OUTSIDE = 24
_FILLER = "."

_QUOTATION = re.compile(
    r"“[^“”\n]{2,300}[”\"]|„[^“”„\n\"]{2,300}[“”\"]|«[^«»\n]{2,300}»|「[^「」\n]{2,300}」|『[^『』\n]{2,300}』|‘[^‘’\n]{2,200}’(?!\w)"
    r"|\"[^\"\n]{2,300}\"|`[^`\n]{2,200}`|(?<![\w'])'(?:[^'\n]|(?<=\w)'(?=\w)){2,200}'(?!\w)"
)
_CODE = re.compile(
    r"(?:^|\n)[ \t]{0,12}(?:def \w+\(|class \w+[(:]|import \w+|from [\w.]+ import |#include|function \w+\(|const \w+ ?=|func \w+\(|public \w+ )"
)
_FIELD = re.compile(
    r"(?:[=\\\"'`]|\w\(|\b[rfbu]|(?:^| )--?\w[\w-]{0,20} |[\"'“”]\s?[:=]\s?[\[{]?\s?|[\[{]\s?|\b[a-z]{2,12}_[a-z_]{2,30}: ?)\Z"
)
"""Before a value of a record, which is no quotation."""
_LABELLED = re.compile(r"\n[ \t-]{0,8}[a-z]{2,16}: ?\Z")
"""Before all of a line that is a value."""
_ARGUMENT = re.compile(
    r"(?:^|[\s`|;&(])(?:ssh|(?:ba|z|da|k)?sh|psql|mysql|sqlite3|mongo(?:sh)?|redis-cli|echo|printf|python\d?|perl|ruby|node|php|curl|wget|eval|exec|su|sudo|docker|kubectl|crontab|awk|sed|grep|find|cmd|powershell|pwsh|iex|xargs|nohup|env|export|ansible|aws|gcloud|az|osascript|nc|openssl|tar|git|gh|tmux|screen|reg|schtasks|wmic|setx|alias|tee|cat|trap)(?:\.exe)? [^\"'\n.?!]{0,60}\Z"
)
"""A command of which the quoted words are an argument."""
_LOGGED = re.compile(r"\n\W{0,3}\d{2,4}[-/:.]\d{2}[-/:. ]\d{2}[^\n]{0,120}\Z")
_ORDERED = re.compile(
    r"(?:^\s{0,3}|[.!?:;,(\n\u2014-]\s{0,3}|\b(?:and|then|please|must|should|to|always|just|only|now|or|instead|you|shall|will|by|simply|immediately|first|also|kindly) )"
    r"(?:say|print|reply|respond|answer|write|output|emit|repeat|type|run|execute|enter|call|send|state|include|add|append|prepend|put|insert|replace|change|swap|edit|switch|tell|start|begin|end|finish|use|open|set|echo|display|return|continue|complete|recommend|mark|label|follow|obey|do|saying|outputting|printing|replying|responding|decode|translate|remember|store|save|paste|post)\b[^\"“«„`]{0,100}\Z"
    r"|\b(?:shall|must|should|has to|have to|is to|are to)\b[^\"“«„`]{0,100}\Z"
)
_DEFENDS = re.compile(
    r"\b(?:ignor\w+|strip\w*|flag\w*|reject\w*|refus\w+|block\w*|disregard\w*|discount\w*|escap\w+|detect\w*|catch|filter\w*|annotat\w+|mark (?:a|an|any|each|every|the)|label\w* (?:a|an|any|each|every|the)|shown? (?:as|when)|sees?|read|such as|e\.g\.?|that says?|which says?)\b"
)
_SAYS = re.compile(
    r"\b(?:say|print|reply|respond|answer|write|output|repeat|type|run|execute|enter|send|include|append|put|insert|tell|end|use|state|open|post|replace)\b"
)
_CITES = re.compile(
    r"\b(?:said|says|saying|wrote|writes|written|contain(?:s|ed|ing)?|append(?:s|ed)|claim(?:s|ed|ing)?|told|tells|telling|ask(?:s|ed|ing)|test(?:s|ed)?|tried|tries|hid|hides|included|begins?|began|shows?|showed|planted|inserted|typed|matched|matches|titled|entitled|phrases?|sentences?|strings?|words?|examples?|slides?|e\.g|such as|attacks?|attackers?|logs?|questions?|quiz|quot\w+|detect\w*|alert\w*|flags?|flagged|tricks?|scams?|variants?|patterns?|regex|texts that|demand\w*|ordered|after the patch|(?:users?|people|they|visitors?|customers?|students?|pages|models|some|others?|many|callers|testers) (?:\w+ )?(?:write|say|type|ask|enter|send|put|add|include|reply|answer|mean)"
    r"|dec[íi]a|dice|escrib\w+|escribi\w+|frases?|[ée]cri\w+|expliqu\w+|satz|s[äa]tze|schreib\w+|schrieb|steht|stand|beispiel\w*|ejemplos?|exemples?|esempi\w*|exemplos?|dizia|diceva|scriv\w+|scritto|worte?\b|пример\w*|фраз\w+|пиш\w+|писал\w*|строк\w+|zinnen|zin\b|zdani\w+|przyk[łl]ad\w*|örne[kğ]\w*|cümle\w*)\b|攻击者|常写|例|写|例如|文字|表現|예[:시]"
)
_PREDICATE = re.compile(
    r"\A[\s,)\]]{0,3}(?:\([^)\n]{0,60}\)[\s,]{0,2})?(?:(?:is|are|was|were|got|has|have|had|must|should|can|may|will|did|does|in|on|as|matches|matched|appears?|shows|counts?|still|never|slips?|slipped|through|ist|war|wird|darf|est|était|es|era|fue|è|é|был\w*|это|—|–|ne|no|nicht)\b|という|は|と|とは|是|被|的|을|를|라는|이라는|gibi\b)"
)
_SEVERAL_WORDS = re.compile(r"\w[,:;.!]? \S|[/\[\]<>|]|[^\x00-\u02ff\W]{4}")
_JOINS = re.compile(
    r"\A(?:[\s,;/()|&\u2013\u2014]|and|or|und|oder|et|ou|y|o|e|nor|then|to|\w\)|\d\)|и|или|、|和|と){0,8}\Z"
)
_OBEYED = re.compile(
    r"\b(?:(?:do|act|reply|respond|proceed|behave) (?:so|as|exactly|what|that)|(?<!not )(?<!never )(?<!n't )(?:obey|follow|execute|carry out|comply with|act on|apply|run|do|use|put|add|paste|install|enter|schedule|append|repeat) (?:it|this|that|them|these|those|the (?:quoted|above|following|instructions?|order|sentence|text))|(?:carries out|executes|obeys) the|is (?:now )?(?:your|in force|binding|active))\b"
)
"""After a quotation that is to be obeyed."""
_FORBIDDEN_BEFORE = re.compile(r"(?:n't|not|never|cannot|no|refuses? to|without)\W{1,2}(?:\w{1,12} ){0,2}\Z")
_FRAME = re.compile(
    r"\b(?:red[ -]?team\w*|post-?mortems?|incidents?|lectures?|lessons?|slides?|courses?|quiz|exam|rubric|grading (?:guide|policy|instructions)|annotat\w+|handbook|training material|awareness|threat model\w*|threat hunt\w*|detection|runbook|playbook|siem|edr|telemetry|forensics?|ctf|writeup|honeypot|changelog|regression|test (?:set|cases?|names|documents?|page)|tested|benchmark|datasets?|corpus|papers?|et al|filter|scanner|classifier|detector|linter|scams?|fraud\w*|phish\w*|prompt.?injections?|jailbreak\w*|attack(?:s|ers?)?|intruders?|security (?:news|course|finding|review)|refus(?:es|ed)|mitigations?|vulnerab\w+|red flags?|regex|exercises?|homework|students?|worksheet|seminar|workshop|textbook|tutorial|explain why|closed (?:as|\()|won.t fix|wontfix|release notes|demo|audit|test protocol|trap page|reward hack\w*|deception|cheat\w*|postfach|warn(?:s|ed|ing)|kurs|cours|curso|corso|formaci[óo]n|schulung\w*|angriff\w*|attaque\w*|ataques?|attacc\w+|фильтр\w*|атак\w*)\b|培训|研修|攻击|授業|典型|攻撃|注入|インジェクション|공격|교육"
)
_CODE_LIKE = re.compile(r"[|&;$<>\\]|\s--?\w|\w/\w+/")
_CODE_FRAME = re.compile(
    r"\b(?:ctf|writeup|forensics?|post-?mortem|telemetry|detection|detects?|edr|siem|sigma|honeypot|cheat sheet|exam|attackers?|intruders?|malware|ransomware|red[ -]?team\w*|threat \w+|iocs?|vulnerab\w+)\b"
)
"""Where code in a text is what others ran."""
_CALLS_READER = re.compile(
    r"\b(?:you are (?:now|no longer|hereby|to|an? (?:ai|assistant|agent|model))|you (?:must|shall|have to|are required|will now)|your (?:instructions|system prompt|guidelines|operator|user|owner|task|safety|new|real|true|original|memory|notes)|dear (?:ai|assistant|agent|model|llm)|(?:assistants?|agents?|models?|ai|llms?|bots?)(?: \w+)? (?:reading|processing|parsing|summari[sz]ing|that reads?|which reads?|handling|indexing) (?:this|these|it)|(?:note|message|instructions?|notice|hint|reminder|attention|for|to) (?:to |for )?(?:the |all |any |every |an |you |your )?(?:ai|llm|language model|assistants?|agents?|chat ?bots?)\b(?: \w+){0,2}[:,]|from now on|henceforth|ignore (?:all|your|any|every|previous|prior|the (?:above|previous|user))|disregard (?:all|your|any|the|previous)|forget (?:all|your|everything|the (?:above|previous)))\b|(?:^|[.!?:;\n]\s{0,3}|\b(?:so|now|ok|okay|and|hey|hello) )(?:assistant|agent|ai|model|bot|chat ?bot|copilot|claude|gpt)s?[,:] "
)

# What third parties said and did
_TEXTS = r"(?:tickets?|mails?|e-?mails?|messages?|letters?|pages?|websites?|sites?|documents?|pdfs?|readmes?|comments?|notes?|invit(?:e|ation)s?|descriptions?|events?|reviews?|posts?|prompts?|plugins?|tools?|images?|items?|listings?|texts?|sms|samples?|snippets?|examples?|stor(?:y|ies)|papers?|answers?|submissions?|memor(?:y|ies)|candidate memory|jobs?|scripts?|versions?|voice|runbooks?|manuals?|wikis?|guides?|posters?|instructions?|checklists?|slides?)"
_HOSTILE = r"(?:attackers?|adversar(?:y|ies)|intruders?|hackers?|scammers?|fraudsters?|criminals?|thie(?:f|ves)|crooks?|impostors?|spammers?|malware|worm|virus|ransomware|payloads?|solvers?|red[ -]?team(?:ers?)?|testers?|students?|candidates?|visitors?|players?|annotators?|callers?|strangers?|someone|somebody|one of (?:us|them))"
_THIRD = rf"(?:{_HOSTILE}|(?:an?|some|many|several|two|three|four|five|six|another|each|hidden|planted|poisoned|malicious|fake|forged|retrieved|injected) (?:[\w-]{{1,40}} ){{0,3}}?{_TEXTS})"
_TOLD_OF = (
    rf"(?:{_HOSTILE}|he|she|they|(?:the|that|one|whose|plugin'?s|tool'?s|page'?s) (?:[\w-]{{1,40}} ){{0,3}}?{_TEXTS})"
)
_PAST = r"(?:told|asked|instructed|ordered|tricked|convinced|persuaded|caused|urged|commanded|requested|begged|wanted|got|made|led|tempted|invited)"
_HEARER = r"(?:the|our|their|its|his|her|a|an|one|all|later|other|some|any|two|three|both|each|every|models?|agents?|assistants?|bots?|people|staff|users|customers|readers|him|them|us|me|it|my)"
_REPORTS = r"(?:told|asked|instruct(?:ed|s|ing)?|order(?:ed|s|ing)|trick(?:ed|s|ing)|convinc(?:ed|es|ing)|persuad(?:ed|es|ing)|caus(?:ed|es|ing)|urg(?:ed|es|ing)|command(?:ed|s|ing)|request(?:ed|s|ing)|begg(?:ed|ing)|begs|wants|wanted|tells|telling|asks|asking|got|gets|made|led|tempt(?:ed|s)|invit(?:ed|es))"
_REPORT = re.compile(
    rf"\b(?:{_THIRD}(?:,? (?:then|also|had|has|have|that|which|who|first|once|later|only|in \w+(?: \w+)?|on \w+(?: \w+)?|from \w+(?: \w+)?|with \w+ \w+|pretended to be [\w ]{{2,30}} and|claimed [\w '-]{{2,60}} and)){{0,3}} {_REPORTS}|{_TOLD_OF}(?: (?:then|also|had|has|once|later|even)){{0,2}} {_PAST}) (?:(?:for|that|{_HEARER})\b(?! you\b)|(?!you\b)[\w-]{{1,40}} (?:[\w-]{{1,40}} )?to\b)"
    r"|(?:^|[.!?;:\n]\s{0,3}|\b(?:when|if|once|was|were|being|after being) )(?:asked|told|ordered|instructed|urged|begged|prompted|tricked) to (?=[^.!?\n]{4,100}, (?:it|they|he|she|the|all|most|none|our|no|\d+|every|one|two|three)\b)"
    r"|\b(?:rows|prompts|attacks|pages|e-?mails|messages|scammers|users|tasks|texts|notes|documents|questions|players|students|samples|examples|payloads|tricks|injections|jailbreaks|tickets|listings) (?:\w+ly )?(?:ask|tell|order|instruct|want|urge|make|get|push|lead|trick) (?:the|a|an|our|their|one) (?:[\w-]{1,40} )?(?:models?|agents?|assistants?|bots?|llms?|judges?|graders?)\b"
    r"|\b(?:[\w-]{1,40} )?(?:prompts?|rubrics?|templates?) (?:asks?|tells?|orders?|instructs?) (?:the|a|an|our) (?:[\w-]{1,40} )?(?:models?|judges?|graders?|raters?|llms?)\b"
)
_DEED_OF_OTHERS = re.compile(
    r"\b(?:the |an? |our |some |that |two |one )?(?:[\w-]{1,40} )?(?:(?:attackers?|adversar(?:y|ies)|intruders?|hackers?|scammers?|fraudsters?|malware|worm|virus|ransomware|solvers?|red[ -]?team|beacons?|droppers?|trojans?|implants?|threat actors?) (?:then |also |first |again |silently |quietly |secretly )?(?:tries to|runs|uses|exfiltrates|sends|deletes|uploads|downloads|writes|disables|leaks|dumps|executes|steals|launches|spawns|\w{2,12}ed|ran|sent|read|overwrote|paid|stole|hid|began)"
    r"|(?:attackers?|adversar(?:y|ies)|intruders?|hackers?|scammers?|fraudsters?|malware|worm|virus|ransomware|solvers?|red[ -]?team|policy|models?|agents?|bots?|assistants?|students?|cleanup job|baselines?|plugins?|extensions?|packages?|loaders?|intern|colleague|contractor) (?:then |also |had |has |once |later |first |again |apparently |silently |quietly |secretly |even ){0,2}(?:learn(?:s|ed|t) to|used to|tried to|ran|sent|forwarded|deleted|wiped|read|copied|uploaded|downloaded|wrote|overwrote|replaced|disabled|unlocked|transferred|paid|leaked|dumped|executed|cheated|hard-?coded|edited|modified|patched|monkey-?patched|obeyed|complied|stole|hid|rm'?ed|launched|spawned|called|printed|could (?!not)\w+)"
    r"|(?:models?|llm|agents?) (?:then|thus|in turn) (?:exfiltrates|leaks|sends|obeys|follows|reveals|reads|runs|executes|calls|prints))\b"
)
_DENIED_DEED = r"(?:(?:delete|remove|erase|wipe|drop|push|send|forward|mail|e-?mail|upload|share|post|publish|paste|transfer|pay|wire|buy|order|approve|grant|disable|turn off|switch off|execute|run|install|obeys?|act on|click|open|unlock|overwrite|force|leak|exfiltrate|hand over|give out|merge|hard-?code|accept invit\w+)(?! (?:the |any |all |your |its |their |our )?(?:\w+ )?(?:tests?|checks?|ci|scans?|evaluations?|suite|verification|reviews?|users?|owners?|operators?)\b)|(?:trust|believe|follow|accept) (?:[\w']+ ){0,3}?(?:tools?|pages?|web\w*|e-?mails?|documents?|readmes?|results?|comments?|invoices?)|make|train on|let the)"
_PROHIBITED = re.compile(
    r"\b(?:(?:agents?|assistants?|bots?|models?|robots?|it|they|we|staff|people|interns|team|nobody|no one|scripts?|jobs?|system|pipeline|tools?|mail|document|employees|anyone|users?|one|you|code|skript|candidates?|students?|judges?) (?:in our \w+ |here )?(?:may|must|should|can|could|will|does|do|did|shall)(?: not|n't|not| never)|(?:may|must|should|shall|can|could) (?:not|never)|mustn't|cannot|can't|never|no longer|(?:do not|don't|does not|doesn't) (?:ever |let (?:the |it |an? )\w+ )?|(?:is|are) (?:not|never|no longer) (?:allowed|permitted|supposed) to|refus(?:es|ed) to|(?:is|are) forbidden to|has no right to|instead of|rather than)"
    rf"(?: (?:allow|let|permit) (?:the |our |any |an? )?\w+(?: to)?)? ?(?:ever |even |just |simply |silently |automatically |again ){{0,2}}{_DENIED_DEED}\b"
)
_AND_YET = re.compile(
    r"[.!?;\n]|\bbut\b|\binstead\b(?! of)|\bthen\b|, (?=(?:and )?(?!(?:and |or |nor )?(?:may|must|should|can|will|do|does|never|not|don't|doesn't|or|nor)\b))"
)
_SENTENCE_END = re.compile(r"[.!?](?=[\s\"”»)]|\Z)|\n")

# Warnings: who writes so is a swindler
_CHEATING = re.compile(
    r"\b(?:submissions?|entr(?:y|ies)|teams?|participants?|runs?|candidates?|papers?|baselines?|repos?|solutions?|students?|policies|agents?|models?|competitors?|authors?) (?:that|which|who) \w+"
)
_CONDEMNED = re.compile(
    r"\b(?:(?:was|were|got|been|we|they|organi[sz]ers|chairs|editors|admins|judges) (?:\w+ )?(?:removed|disqualified|banned|withdrawn|withdrew|excluded|retracted|rejected|caught|desk-rejected)|(?:known|common|typical|an? (?:old|ugly|known)) cheats?|cheating|cheaters?|misconduct|count as (?:failures?|failed|zero))\b"
)
_OF_MANIPULATION = re.compile(
    r"\b(?:responses?|answers?|sentences?|texts?|submissions?|papers?|passages?|strings?|notes?|entries|candidates?|authors?|lines?|phrases?|memories|memory|records?) (?:that|which|who) (?:(?:directly|openly|only|try to|tries to|tried to) )?(?:addresse?s?|addressed|asks?|asked|begs?|speaks? to|flatters?|instructs?|pleads?|appeals? to|praises?|talks? to|orders?|tells?) (?:for |the |an? |any |its |their |our )?(?:\w+ )?(?:judges?|graders?|reviewers?|raters?|evaluators?|markers?|examiners?|marks?|points|scores?|grades?)\b"
)
_OF_JUDGES = re.compile(
    r"\b(?:our|the|an?|llm|each|every|some|both|most|small|cheap|human) (?:[\w-]{1,40} )?(?:judges?|graders?|raters?|reviewers?|evaluators?|judge models?) (?:\w+ly )?(?:uses?|sees?|saw|prefers?|preferred|(?:does|do|did)(?:n't| not) see|gets?|reads?|compares?|compared|returns?|outputs?|repeats?|looks? up|disagrees?|disagreed|agrees? with|differs?|overrates?|favou?rs?)\b"
)
_IS_FRAUD = re.compile(
    r"\b(?:is|are) (?:(?:nearly|almost|very|most|always|likely|probably|usually|certainly|a|an|the|typical|classic|well-known|common|clear|sure|every|not from|never from) ){0,4}(?:scams?|frauds?|fraudulent|phish\w*|swindle\w*|traps?|tricks?|attacks?|fake|injections?|red flags?|sign of|warning signs?|spam|hoax|clickfix|social engineering)\b|\b(?:should|must|please|just|then)?,? ?(?:hang up|close it|end the call|report it|delete it|call (?:us|back|your bank)|do not (?:reply|answer|pay)|don't (?:reply|answer|pay))\b|\bred flags?\b|\b(?:banks?|we|police|authorities|our \w+) (?:will )?never asks?\b"
)
_SUSPECT = re.compile(
    r"\b(?:(?:an?|any|every|if an?|if the|when an?|when the|if|when|anyone|someone|those|people|callers?) )?(?:[\w-]{1,40} ){0,2}(?:mails?|e-?mails?|calls?|callers?|messages?|pages?|letters?|texts?|sms|pop-?ups?|sites?|websites?|offers?|persons?|people|someone|somebody|anyone|strangers?|ceo|bank|voice|documents?|notes?|instructions?|adverts?|links?)\"? (?:(?:writes?|calls?|from|in|on|with)\b[^.!?\n]{0,60}?)?(?:that |which |who |where )?(?:asks?|asking|tells?|telling|wants?|demands?|demanding|orders?|ordering|urges?|requests?|requesting|says?|claims?|instructs?|invites?|forbids?|wanting|calls? for|writes?)\b"
)
_SIGNS = re.compile(
    r"\b(?:alert(?:s|ed)? (?:when|on|if|for)|detect(?:s|ion)?(?: rules?)?(?: for| when| if| on)?:?|trigger(?:s|ed)? (?:when|on|if)|flag(?:s|ged)? (?:when|on|if|any|every)?|page (?:someone|us|the on-?call) (?:when|if)|(?:command ?line|commandline|processcommandline|cmdline|image|scriptblocktext) (?:has|contains|has_any|matches|endswith|like|has_all|=~|==)|hunt(?:s|ing)? for|(?:rules?|it|that|which) fires? (?:on|when)|(?:condition|selection|rule title|title|query) ?:|look(?:s|ing)? (?:out )?for|watch(?:es|ing)? for|indicators? of|on \W(?=[^\n]{2,80}? in (?:the )?(?:process|event|audit|command)))"
)
_SIGN_OF = re.compile(
    r"\b(?:telemetry|process[- ]creation|command ?lines?|sigma|siem|edr|iocs?|alerts?|detection|precursor|isolate the host|threat hunt\w*|sentinel|splunk|kql|auditd|sysmon|event id|before encryption|soc)\b"
)

_QUESTION = re.compile(
    r"\b(?:why|how often|how|when|where|what happens (?:if|when)|whether|which of \w+ \w+)?,? ?(?:does|do|did|should|is|are) (?:(?:my|our|the|an?|any|human|other) (?:[\w-]{1,40} )?)?(?:bots?|agents?|assistants?|models?|judges?|reviewers?|graders?|people|users?|students?|it|they|we|i) [^.!?\n]{2,120}\?"
)
_BY_HAND = re.compile(
    r"(?:^|[.!?:\n]\s{0,3})to [^.,!?\n]{4,80}(?:,| you) (?:just |simply |first )?(?:hold|press|push|slide|tap|insert|twist|pull|will need|need|must hold|have to hold|must press)\b"
)
"""The purpose of what hands do at a machine."""


def only_what_is_said(find: Callable[..., Iterator[Hit]]) -> Callable[..., Iterator[Hit]]:
    """Makes a finder yield only what a text says itself, and not what it tells of others."""

    def finder(text: str, **options: bool) -> Iterator[Hit]:
        hits = [*find(text, **options)]
        if sum(hit.weight for hit in hits) >= _LEAST_WEIGHT:
            said = without_the_told(text)
            if said is not text:
                hits = _no_heavier(find(said, **options), hits, said)
        yield from hits

    finder.__doc__ = find.__doc__
    return finder


def _no_heavier(hits: Iterable[Hit], before: list[Hit], said: str) -> list[Hit]:
    """Returns the hits, none heavier than before for the lack of words that were taken out next to it."""
    weights: dict[str, float] = {}
    for hit in before:
        weights[hit.rule] = max(weights.get(hit.rule, 0.0), hit.weight)
    kept = []
    for hit in hits:
        near = said[max(0, hit.start - _BEFORE_CHARS) : hit.end + _BEFORE_CHARS]
        weight = weights.get(hit.rule, 0.0 if _FILLER * 8 in near else hit.weight)
        if weight > 0.0:
            kept.append(hit if weight >= hit.weight else replace(hit, weight=weight))
    return kept


@lru_cache(maxsize=8)  # every category asks about the same few views
def without_the_told(text: str) -> str:
    """Returns `text` with the passages it only tells of blotted out, of the same length; `text` itself if it has none."""
    if len(text) > _MOST_CHARS or text.lstrip()[:1] in ("{", "["):
        return text
    if _CODE.search(text) is not None:
        return text
    low = fold(text)
    quotations = [match.span() for match in _QUOTATION.finditer(low)]
    outside = _blotted(low, [(start, end - (low[end - 2] in ".!?")) for start, end in quotations], "_")
    for mark in "\"”“»」』’`'":
        outside = outside.replace(f"_{mark}", "_.")
    if _CALLS_READER.search(outside) is not None:
        return text
    told = [*_cited(low, outside, quotations), *chain.from_iterable(part(outside) for part in _PARTS)]
    return _blotted(text, told) if told else text


def _blotted(text: str, spans: list[tuple[int, int]], filler: str = _FILLER) -> str:
    pieces, last = [], 0
    for start, end in sorted(spans):
        if end > last:
            start = max(start, last)
            pieces += [text[last:start], filler * (end - start)]
            last = end
    return "".join((*pieces, text[last:]))


def _sentence(low: str, start: int, end: int) -> tuple[str, str]:
    """Returns the words of the sentence before `start` and after `end`, bounded."""
    before = low[max(0, start - _BEFORE_CHARS) : start]
    stops = [match.end() for match in _SENTENCE_END.finditer(before)]
    after = low[end : end + _AFTER_CHARS]
    stop = _SENTENCE_END.search(after)
    return before[stops[-1] if stops else 0 :], after[: stop.start()] if stop is not None else after


def _cited(low: str, outside: str, quotations: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields the quotations of which the text speaks."""
    if not quotations or sum(map(str.isalpha, outside)) < _FEWEST_LETTERS_OUTSIDE:
        return
    in_frame = _FRAME.search(outside) is not None
    about_attacks = in_frame and _CODE_FRAME.search(outside) is not None
    last = -1
    for start, end in quotations:
        before, after = _sentence(outside, start, end)
        lead = low[max(0, start - 24) : start]
        if _FIELD.search(lead) is not None or (low[start] in "\"'" and _ARGUMENT.search(before) is not None):
            continue
        if _OBEYED.search(after) is not None or _OBEYED.search(outside[end : end + _AFTER_CHARS]) is not None:
            continue
        if _LABELLED.search("\n" * (start <= len(lead)) + lead) is not None and low[end : end + 2].strip(",.") == "":
            continue
        if _LOGGED.search("\n" * (start <= _BEFORE_CHARS) + low[max(0, start - _BEFORE_CHARS) : start]) is not None:
            continue
        if not _SEVERAL_WORDS.search(low, start, end):
            continue
        ordered = _ORDERED.search(before)
        if ordered is not None and not _told_before(before[: ordered.start() + 1]) and not _defended(before):
            continue
        noun = CITING.search(before) is not None and before[-2:-1] != ":"
        joined = last >= 0 and _JOINS.match(low[last:start]) is not None
        subject = low[start] != "`" and _PREDICATE.match(after) is not None
        is_code = low[start] == "`" or _CODE_LIKE.search(low, start, end) is not None
        framed = about_attacks if is_code else in_frame
        if framed or joined or subject or noun or _CITES.search(before) is not None:
            last = end
            yield start, end


def _defended(words: str) -> bool:
    """Returns whether a quotation after the words is what the reader shall be on its guard against."""
    ends = [match.end() for match in _DEFENDS.finditer(words)]
    return bool(ends) and _SAYS.search(words, ends[-1]) is None


def _told_before(words: str) -> bool:
    return _REPORT.search(words) is not None or _FORBIDDEN_BEFORE.search(words) is not None


def _end_of_sentence(low: str, at: int) -> int:
    stop = _SENTENCE_END.search(low, at)
    return stop.start() if stop is not None else len(low)


def _reported(outside: str) -> Iterator[tuple[int, int]]:
    for pattern in (_REPORT, _DEED_OF_OTHERS):
        for match in pattern.finditer(outside):
            yield match.start(), _end_of_sentence(outside, match.end())


def _prohibited(outside: str) -> Iterator[tuple[int, int]]:
    for match in _PROHIBITED.finditer(outside):
        stop = _AND_YET.search(outside, match.end())
        yield match.start(), stop.start() if stop is not None else len(outside)


def _warned(outside: str) -> Iterator[tuple[int, int]]:
    for match in _CHEATING.finditer(outside):
        end = _end_of_sentence(outside, match.end())
        following = _end_of_sentence(outside, min(len(outside), end + 1))
        if _CONDEMNED.search(outside, max(0, match.start() - 60), following) is not None:
            yield match.start(), end
    for match in _SUSPECT.finditer(outside):
        end = _end_of_sentence(outside, match.end())
        following = _end_of_sentence(outside, min(len(outside), end + 1))
        verdict = _IS_FRAUD.search(outside, match.start(), following)
        if verdict is not None:
            yield match.start(), max(verdict.end(), min(end, verdict.end()))


def _signs(outside: str) -> Iterator[tuple[int, int]]:
    if _SIGN_OF.search(outside) is None:
        return
    for match in _SIGNS.finditer(outside):
        yield match.start(), _end_of_sentence(outside, match.end())


def _asked(outside: str) -> Iterator[tuple[int, int]]:
    for pattern in (_QUESTION, _BY_HAND):
        yield from (match.span() for match in pattern.finditer(outside))


def _judged(outside: str) -> Iterator[tuple[int, int]]:
    for pattern in (_OF_MANIPULATION, _OF_JUDGES):
        for match in pattern.finditer(outside):
            before, _ = _sentence(outside, match.start(), match.end())
            yield match.start() - len(before), _end_of_sentence(outside, match.end())


_PARTS = (_judged, _reported, _prohibited, _warned, _signs, _asked)
