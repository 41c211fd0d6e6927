"""The table of injection families: patterns over word classes.  Imported by `injection`; standard library only.

Patterns are built from word classes (who is addressed, what is overridden, which instruction words) instead of stock
sentences; a blank in them stands for any short gap (see `hit.phrase`).
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perpetual_immune.rules import address, loyalty
from perpetual_immune.rules.hit import pattern, phrase, squeezed
from perpetual_immune.rules.index import Index
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.ruses import ROWS


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of a family; `absolute` ones mean the same wherever they stand and are not lowered by context."""

    rule: str
    family: str
    weight: float
    plain: Rule
    squeezed: Rule | None
    absolute: bool = False


_PRIOR = (
    r"(?:previous|prior|preceding|above|earlier|former|foregoing|existing|original|initial|current|past|old|other|system|default|"
    r"aforementioned|before|safety|developer|content|given|hidden|operator)"
)
_INSTRUCTION = (
    r"(?:instructions?|instr|directions?|directives?|guidelines?|rules?|prompts?|commands?|orders?|constraints?|restrictions?|polic(?:y|ies)|"
    r"programming|guardrails?|guidance|tasks?|requests?|context|conversations?|messages?|text|inputs?|configurations?|training|content|filters?|"
    r"protocols?|limitations?|safeguards?|assignments?|questions?|information)"
)
_CANCEL = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overlook|neglect|bypass(?:ing)?|overrid(?:e|ing)|overwrite|discard|dismiss|skip|"
    r"drop|abandon|cancel|omit|erase|void|nullify|supersede|do not follow|don'?t follow|stop following|pay no attention to|do not obey|"
    r"no longer follow|set aside|throw (?:out|away)|put aside|never ?mind|disobey)"
)
_ALL = r"(?:(?:all|any|every|each|everything|of|the|your|my|our|these|those|this|that|its|their|his|other|and|or|previously|just|completely|entirely) ){0,5}"
_ALL_S = r"(?:all|any|every|of|the|your|my|these|those|other){0,4}"
# What manuals say of settings and queues: "override the default configuration", "cancel the current request".
_TOO_USUAL = (
    rf"(?:overrid(?:e|ing)|overwrite|discard|skip|drop|cancel|omit|erase|dismiss) {_ALL}(?:previous|prior|existing|original|initial|current|past|old|other|default|given) "
    r"(?:\w+ ){0,2}(?:config(?:uration)?s?|settings?|values?|options?|parameters?|behaviou?rs?|arguments?|contexts?|text|inputs?|content|training|messages?|requests?|tasks?|questions?|information|conversations?)\b"
    r"|(?:ignore|disregard|forget|skip|overlook|discard) my (?:previous|prior|earlier|last|other|old|first|original) (?:\w+ )?(?:messages?|e-?mails?|questions?|comments?|requests?|notes?|text|information|inputs?)\b"
)
_SECRET_TEXT = r"(?:system|initial|original|hidden|secret|internal|developer|full|starting|first|base|core|confidential|pre-?|private|underlying|entire|complete|above)"
_REVEAL = r"(?:reveal|show|print|output|repeat|display|disclose|leak|expose|tell|give|share|write|return|echo|dump|recite|list|state|spell|provide|copy|paste|summari[sz]e|translate|encode|extract)"
_ASSISTANT = (
    r"(?:assistant|ai|model|llm|agent|chatbot|chat ?gpt|gpt|claude|gemini|llama|bard|bot|copilot|language model|system)"
)
_LIMITS = (
    r"(?:restrictions|censorship|ethics|ethical|moral(?:s|ity)?|guidelines?|guardrails?|content polic\w+|moderation|inhibitions?|"
    r"shackles|chains|confines|safeguards?|safety (?:rules|filters?|guidelines?|protocols?|measures?)|content (?:filters?|restrictions?)|limitations whatsoever)"
)
_BOUNDS = r"(?:restrictions?|limits?|limitations?|filters?|rules?|constraints?|boundaries|polic(?:y|ies)|laws?|regulations?|principles|safety|judge?ment)"


def _rows() -> Iterator[tuple[str, str, float, str, str | None, bool]]:
    """Yields rule, family, weight, pattern, squeezed pattern, absolute."""
    # override
    yield (
        "override-prior",
        "override",
        3.0,
        rf"\b(?!{_TOO_USUAL}){_CANCEL} {_ALL}{_PRIOR} (?:\w+ ){{0,2}}{_INSTRUCTION}\b",
        rf"(?:ignore|disregard|forget|override|bypass){_ALL_S}{_PRIOR}(?:\w{{0,8}}){_INSTRUCTION}",
        False,
    )
    yield (
        "override-all",
        "override",
        3.0,
        rf"\b{_CANCEL} (?:all|any|every|everything|each|both)(?: of)?(?: (?:the|your|my|these|those|other))? (?:\w+ ){{0,1}}(?:instructions?|directives?|guidelines?|rules|prompts?|commands|orders|constraints|restrictions|polic(?:y|ies)|programming|guardrails)\b",
        None,
        False,
    )
    yield (
        "override-your",
        "override",
        3.0,
        rf"\b{_CANCEL} (?:all |any )?(?:of )?your (?:\w+ ){{0,2}}(?:instructions?|directives?|guidelines?|rules|prompts?|programming|constraints|restrictions|guardrails|training|polic(?:y|ies)|safeguards|role)\b",
        None,
        False,
    )
    yield (
        "override-above",
        "override",
        3.0,
        r"\b(?:ignore|disregard|forget) (?:(?:all|everything|anything|whatever|what|the)(?: of)?(?: (?:the|that|was|is|has been|you(?: have|'ve)?|i(?: have|'ve)?|we(?: have)?))? ){0,2}(?:(?:text|content|stuff|lines?|words?) )?(?:above|before(?: this| that| now)?|prior|up to (?:now|here)|said|told|learned|written|previously)\b",
        r"(?:ignore|disregard|forget)(?:everything|all|what)\w{0,12}(?:above|before|prior|said|told)",
        False,
    )
    yield (
        "override-forget",
        "override",
        3.0,
        r"\bforget (?:everything|all|anything|every ?thing) (?:you(?:'ve| have)?|i|we|that|about|prior|and|,|from|learned|above|before)\b",
        None,
        False,
    )
    yield (
        "override-cancelled",
        "override",
        3.0,
        rf"\b(?!(?:old|earlier|existing)(?: \w+)? (?:requests?|tasks?|messages?|text|inputs?|configurations?|content|questions?|information|training|filters?|protocols?|assignments?) (?:is|are|was|were|has been|have been) (?:now )?(?:replaced|deprecated|obsolete|outdated|completed?)\b)(?:previous|prior|earlier|above|original|old|existing|initial|system|current|preceding)(?: \w+){{0,2}} {_INSTRUCTION} (?:(?:is|are|has been|have been|was|were|should be|must be|will be) )?(?:now )?(?:hereby )?(?:cancel?led|void|deprecated|superseded|suspended|revoked|obsolete|invalid|outdated|overridden|over|complete[d]?|lifted|disabled|null|replaced|rescinded|no longer (?:apply|applies|valid|active|in effect))\b",
        None,
        False,
    )
    yield (
        "override-supersede",
        "override",
        3.0,
        r"\b(?:these|this|following|below|new|my)(?: \w+){0,2} (?:instructions?|directives?|rules|guidelines|message|prompt|orders?|commands?)(?: \w+){0,2} (?:supersedes?|overrides?|overrule|replaces?|takes? (?:precedence|priority)|trumps?|cancels?|(?:has|have) (?:higher|highest|top|absolute) priority)\b",
        None,
        False,
    )
    yield (
        "override-new-task",
        "override",
        2.0,
        r"\b(?:new|updated|real|actual|true|revised) (?:instructions?|task|directive|orders?|objective|goal|mission|assignment|system prompt) ?(?:is |are |follows? )?[:=]",
        None,
        False,
    )
    yield (
        "override-instead",
        "override",
        1.5,
        r"\b(?:instead of|rather than) (?:\w+ ){0,4}(?:instructions?|task|request|summar\w+|answering|translating)\b[^.\n]{0,40}\b(?:say|output|print|reply|respond|write|do)\b",
        None,
        False,
    )
    yield (
        "override-start-over",
        "override",
        2.0,
        r"\b(?:now |and )?(?:start|begin) (?:over|anew|afresh|from scratch) (?:with|and|as|by|following) (?:\w+ ){0,4}(?:instructions?|prompt|you|your|role|task)\b",
        None,
        False,
    )
    yield (
        "override-stop",
        "override",
        2.5,
        r"\b(?:stop|end|halt|abort|terminate|pause|cease) (?:(?:the|your|this|all|what you are doing|being) ){0,3}(?:current |previous |original )?(?:task|processing|summari[sz]\w+|translat\w+|instructions?|evaluation|conversation|role)\b[^\n]{0,30}\b(?:and|now|instead|then)\b",
        None,
        False,
    )
    yield (
        "override-mind",
        "override",
        2.5,
        r"\b(?:reset|clear|wipe|erase|purge|flush) (?:all (?:of )?)?(?:your|all|our) (?:\w+ )?(?:memory|context|mind|instructions|programming|conversation|chat history|system prompt|prior context)\b",
        None,
        False,
    )
    yield (
        "override-not-bound",
        "override",
        2.0,
        rf"\byou (?:are|will be|have been|'re) (?:now |no longer |not |completely |finally ){{1,3}}(?:bound|restricted|limited|constrained|governed|subject|free|freed|liberated|released|unbound|exempt)\b[^.\n]{{0,40}}\b{_LIMITS}?",
        None,
        False,
    )
    yield (
        "override-request",
        "override",
        2.5,
        r"\b(?:ignore|disregard|forget|abandon|drop|skip) (?:the|this|that|your|my|any|whatever) (?:\w+ ){0,2}(?:request|task|question|prompt|instructions?|query|assignment|directives?|objective|conversation)\b",
        None,
        False,
    )
    # impersonation of a role or the system
    yield (
        "forged-role-tag",
        "impersonation",
        3.0,
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|end_of_turn)\|?>",
        None,
        False,
    )
    yield (
        "forged-inst",
        "impersonation",
        2.5,
        r"\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<\|?/?(?:system|SYSTEM)(?:[ _-](?:prompt|message|instructions?|override|note|reminder))?\|?>",
        None,
        False,
    )
    yield (
        "forged-system-line",
        "impersonation",
        2.0,
        r"(?:^|\n)[\s>#*\[({<-]{0,8}(?:system|admin(?:istrator)?|root|developer|operator|security|openai|anthropic)(?: (?:message|prompt|note|notice|override|instructions?|update|alert|command|directive|administrator))?[\]*)}>]{0,4} ?:[ *]",
        None,
        False,
    )
    yield (
        "forged-note",
        "impersonation",
        2.0,
        r"\b(?:note|message|notice|update|instructions?|directive|memo|order|request|word) from (?:the |your |our )?(?:\w+ )?(?:developers?|admin\w*|system|operator|openai|anthropic|creator|owner|security|management|support|vendor|it department) ?(?:team )?(?::|-|to)",
        None,
        False,
    )
    yield (
        "confirm-by",
        "coercion",
        2.0,
        r"\b(?:confirm|acknowledge|verify|prove|indicate|signal)(?: \w+){0,4} by (?:outputting|replying|responding|saying|printing|writing|sending|calling|including|returning)\b",
        None,
        False,
    )
    yield (
        "story-echo",
        "role",
        1.5,
        r"\b(?:always|only) (?:repl(?:y|ies)|responds?|answers?) with\b",
        None,
        False,
    )
    yield (
        "forged-bracket",
        "impersonation",
        2.5,
        r"(?:[\[{<]{1,3}|\(\()[ #*]?(?:system|admin(?:istrator)?|root|developer|assistant|operator|priority|urgent|critical|hidden|ai)(?: (?:message|prompt|note|notice|override|instructions?|update|alert|command|directive|mode|level|access|only))?[ #*]?(?:[\])}>]{1,3}(?!(?<=\]) (?:entries|lines?|events?|records|logs?|tags?|prefix\w*|columns?|rows?|fields?|is|are|was|were|means|marks|stands|shows|comes|and|or)\b)|:)",
        None,
        False,
    )
    yield (
        "system-override",
        "impersonation",
        3.0,
        r"\b(?:system|admin(?:istrator)?|developer|security|safety|root|emergency|instruction|prompt|policy|priority|maintenance|debug) (?:override|overrides?|bypass)\b(?! (?:file|option|flag|setting|the|in|of|for|by|via|hook|method|function|config))",
        None,
        False,
    )
    yield (
        "forged-delimiter",
        "delimiter",
        2.0,
        r"(?:[-=#*~_<>]{3,40} ?(?:end|begin|start|stop)(?: of)?(?: the| this| user| system| new| my)? (?:\w+ )?(?:instructions?|prompt|system|context|input|document|data|text|user|message|conversation|email|override)[^\n]{0,24}[-=#*~_<>]{3,})",
        None,
        False,
    )
    yield (
        "forged-close-tag",
        "delimiter",
        2.0,
        r"</(?:untrusted|user_?input|user_?data|user_?query|document|data|context|tool_?(?:result|output|response)|retrieved|memory|instructions?|system|input|email|function_results?)>\s{0,4}(?:</\w+>\s{0,4}){0,3}[^\n<]{0,6}(?:\n|system|user|assistant|new|human|ignore|now|<)",
        None,
        False,
    )
    yield (
        "forged-turn",
        "delimiter",
        1.5,
        r"\n\s{0,4}(?:human|user|assistant|ai) ?: [^\n]{3,200}\n\s{0,4}(?:assistant|ai|human|user) ?: ",
        None,
        False,
    )
    yield (
        "addressed-to-model",
        "impersonation",
        2.5,
        r"\b(?:note|message|instructions?|attention|notice|important|memo|hint|reminder|warning|directive|comment|hey|dear|hello|to|if you are an?|for) (?:(?:to|for|from|all|any|the|this|an?|every|you|reading|processing|summarizing|are) ){0,5}(?:ai|llm|language model|chatbot|automated|large language)(?: (?:assistants?|models?|agents?|systems?|bots?|reviewers?|readers?|reading|processing|parsing))* ?(?::|,|reading|processing|parsing|must|should|please)",
        None,
        False,
    )
    yield (
        "authority-claim",
        "impersonation",
        1.5,
        r"\b(?:as|i am|this is|i'm|we are|from|by) (?:an? |the |your |an authori[sz]ed )?(?:(?:system|lead|senior|chief) )?(?:admin(?:istrator)?|developers?|creator|openai|anthropic|it (?:department|security|team)|security team|ceo|root user|operator|supervisor)\b[^.\n]{0,60}\b(?:authori[sz]\w+|need|require|order|grant|permission|instruct|demand|request|must|override|access|command)",
        None,
        False,
    )
    yield (
        "pre-approved",
        "impersonation",
        2.0,
        r"\b(?:user|operator|admin\w*|owner|developer|team|you|this (?:step|action)) (?:\w+ ){0,4}(?:already|previously|pre-?)[ -]?(?:approv|authori[sz]|consent|confirm|agreed)\w*",
        None,
        False,
    )
    yield (
        "pre-approved-action",
        "impersonation",
        1.5,
        r"\b(?:no (?:further |additional |user |need for )?(?:confirmation|approval|permission|consent|verification)(?: \w+){0,3} (?:needed|required|necessary)|without (?:asking|confirmation|confirming|approval|prompting|user consent)(?: for)?|do not ask (?:for|the user)|pre-?(?:approved|authori[sz]ed))\b",
        None,
        False,
    )
    # persona without limits
    yield (
        "persona-dan",
        "persona",
        3.0,
        r"\bdo anything now\b|\bdan mode\b|\b(?:developer|debug|admin)[ -]?mode (?!(?:is|was|were|must|should|can|needs?|has|may|on|to)\b)(?:\w+ ){0,2}(?:enabled|activated|unlocked|engaged|output)\b|\b(?:god|jailbreak(?:ed)?|unrestricted|sudo|evil|opposite|chaos|nsfw|uncensored|unfiltered)[ -]?mode (?:\w+ ){0,2}(?:enabled|activated|on|unlocked|engaged|output)\b|\bgodmode\b|\b(?:enable|activate|enter|simulate|unlock|switch (?:to|into)|you are (?:now )?in) (?:\w+ ){0,2}(?:developer|debug|god|jailbreak|unrestricted|sudo|evil|opposite|dan|uncensored|unfiltered|maintenance)[ -]?mode\b",
        r"doanythingnow|developermodeenabled|jailbreakmode|godmodeenabled",
        False,
    )
    yield (
        "persona-unlimited",
        "limits",
        2.5,
        rf"\b(?:no|without(?: any)?|free (?:of|from)(?: (?:all|any|the))?|zero|ignor\w+(?: (?:all|any))?|not bound by(?: (?:any|the))?|unbound by|unbothered by|break(?:ing|s)?(?: (?:all|the|free (?:of|from)))?|bypass\w*(?: (?:all|any|your))?|does ?n[o']t (?:have|care about|follow|abide by|adhere to)(?: (?:any|the))?|not (?:have|follow|adhere to|abide by|restricted by|limited by)(?: (?:any|the|to))?|never follow\w*) (?:\w+ ){{0,3}}{_LIMITS}\b",
        None,
        False,
    )
    yield (
        "persona-unbounded",
        "limits",
        0.75,
        rf"\b(?:no|without(?: any)?|free (?:of|from)(?: (?:all|any|the))?|zero|ignor\w+(?: (?:all|any))?|not bound by(?: (?:any|the))?|unbound by|unbothered by|break(?:ing|s)?(?: (?:all|the|free (?:of|from)))?|bypass\w*(?: (?:all|any|your))?|does ?n[o']t (?:have|care about|follow|abide by|adhere to)(?: (?:any|the))?|not (?:have|follow|adhere to|abide by|restricted by|limited by)(?: (?:any|the|to))?|never follow\w*) (?:\w+ ){{0,3}}{_BOUNDS}\b",
        None,
        False,
    )
    yield (
        "persona-act-as",
        "role",
        1.0,
        r"\b(?:act|behave|respond|answer|reply|speak|talk) (?:as|like) (?:an? |the |if )?\w+",
        None,
        False,
    )
    yield (
        "persona-unfiltered",
        "limits",
        2.0,
        r"\b(?:unfiltered|uncensored|amoral|unrestricted|unethical|immoral|unhinged|unshackled|jailbroken|no-holds-barred|unmoderated|unlimited|rebellious(?:ly)?|unrestrictedly)\b",
        None,
        False,
    )
    yield (
        "persona-now",
        "role",
        1.5,
        r"\b(?:you are now|you're now|you will now (?:be|act|pretend|play|simulate|become|assume|take)|from now on,? you (?:are|will|'re|act|must|should)|pretend (?:to be|you are|that you)|act as if you|role-?play(?:ing)? as|take on the (?:role|persona)|assume the (?:role|identity|persona)|impersonate|simulat\w+ (?:a|an|the|being)|you (?:are|will be) playing|imagine you are|i want you to (?:act|be|pretend|play)|let'?s (?:play a game|role-?play))\b",
        r"(?:youarenow|pretendtobe|fromnowonyou)",
        False,
    )
    yield (
        "persona-never-refuse",
        "refusal",
        2.0,
        r"\b(?:never|not|cannot|can'?t|don'?t|without|must not|no) (?:\w+ ){0,3}(?:refus(?:e|es|al|ing)|declin(?:e|es|ing)|say (?:no|that you can)|apologi[sz]e|disclaimers?|moraliz\w+|den(?:y|ying)|reject (?:a |any |my )|warn(?:ing)?s? (?:the user|about|against)|ethical (?:concerns?|considerations?))\b|\bregardless of (?:\w+ ){0,4}(?:legal|ethic|moral|harm|consequence|safety|offens)\w*|\bno matter (?:how|if|what|the)[^.\n]{0,40}(?:illegal|unethical|immoral|offensive|harmful|dangerous|inappropriate)",
        None,
        False,
    )
    yield (
        "persona-character",
        "role",
        1.5,
        r"\b(?:stay(?:s)? in character|break(?:s|ing)? character|in character|remain in character|two (?:different |separate )?(?:responses|answers|ways|paragraphs)|both (?:responses|outputs)|token system|deduct\w* \d* ?tokens|(?:lose|losing) \d* ?(?:tokens|points|lives))\b",
        None,
        False,
    )
    yield (
        "persona-ai-rules",
        "limits",
        2.5,
        r"\b(?:open ?ai'?s?|anthropic'?s?|chatgpt'?s?|ai|content|google'?s?) (?:\w+ ){0,2}(?:polic(?:y|ies)|guidelines?|rules|restrictions?|ethics|terms)\b[^.\n]{0,60}\b(?:ignor|bypass|break|violat|do(?:es)? not apply|not apply|overr|circumvent|disregard|free|no longer|opposite|confines|never)\w*",
        None,
        False,
    )
    yield (
        "persona-ai-rules-2",
        "limits",
        2.0,
        r"\b(?:ignor|bypass|break|violat|overr|circumvent|disregard|free|defy|escape|evade|opposite|broken)\w*[^.\n]{0,50}\b(?:open ?ai|anthropic|chatgpt|content polic|typical (?:confines|boundaries)|confines of|your programming|ai (?:rules|ethics|safety))",
        None,
        False,
    )
    yield (
        "persona-gpt",
        "role",
        1.5,
        r"\b(?:evil|dark|anti|freedom|based|rude|mongo|better|chad|hyper)[ -]?(?:gpt|bot|ai|confidant)\b|\banswer (?:as|like) (?:both |an? )?(?:unrestricted|evil|human)\b|\bas an ai (?:language )?model\b[^.\n]{0,40}\b(?:never|not|don'?t|stop|avoid)",
        None,
        False,
    )
    yield (
        "persona-prefix",
        "format",
        1.5,
        r"\b(?:start|begin|prefix|preface|precede)(?:s|ning|ing)? (?:\w+ ){0,3}(?:your |every |each |all |the |any )?(?:responses?|answers?|repl(?:y|ies)|sentences?|outputs?|messages?) (?:\w+ ){0,2}(?:with|by|as)\b",
        None,
        False,
    )
    # disclosure of instructions or data
    yield (
        "reveal-prompt",
        "disclosure",
        3.0,
        rf"\b{_REVEAL}(?: (?:me|us|out|all|back|to|of|exactly|verbatim|the|your|this|word for word|for me|in full))* {_SECRET_TEXT}(?: \w+){{0,2}} (?:prompts?|instructions?|messages?|configuration|rules|guidelines|directives?|context)\b(?! (?:a |more |less |the )?(?:higher |lower |most |least )?(?:priority|precedence|weight|attention))",
        r"(?:reveal|show|print|output|repeat|display)(?:me|the|your){0,3}(?:system|hidden|initial)(?:prompt|instructions?)",
        False,
    )
    yield (
        "reveal-your",
        "disclosure",
        2.5,
        rf"\b{_REVEAL}(?: (?:me|us|out|all|back|to|of|exactly|verbatim))* your (?:\w+ ){{0,2}}(?:prompt|instructions|directives|system message|rules|guidelines|configuration|training data|api keys?|secrets?|passwords?|credentials|secret key)\b",
        None,
        False,
    )
    yield (
        "reveal-what",
        "disclosure",
        2.5,
        r"\bwhat (?:is|are|were|was|does)(?: (?:in|written))? (?:your|the) (?:\w+ ){0,2}(?:system prompt|initial prompt|original instructions|hidden prompt|system instructions|secret (?:key|password|code|word)|pre-?prompt|first instructions)\b|\b(?:text|words|content|sentences?|everything|lines?|message) (?:above|before) (?:this|starting|beginning|verbatim|in)\b[^.\n]{0,40}\b(?:repeat|print|output|verbatim|line|code block|sentence)|\b(?:repeat|print|output|copy) (?:\w+ ){0,4}(?:text|words|everything|content|sentences?|all|message|instructions?) (?:above|before|verbatim)",
        None,
        False,
    )
    yield (
        "reveal-secret",
        "disclosure",
        2.0,
        r"\b(?:reveal|tell me|give me|show me|print|output|disclose|leak|share|what is|what's|say) (?:\w+ ){0,3}(?:the |your |a )?(?:secret|password|passphrase|access code|secret key|flag|private key|api[ _-]?keys?|credentials)\b",
        None,
        False,
    )
    # exfiltration and tool calls asked of the reader
    yield (
        "exfiltrate-send",
        "exfiltration",
        2.0,
        r"\b(?:send|email|e-mail|post|upload|forward|transmit|exfiltrate|leak|submit|deliver|relay|bcc|cc)\b[^.\n]{0,80}\b(?:api[ _-]?keys?|credentials?|passwords?|secrets?|tokens?|system prompt|conversation(?: history)?|chat history|private keys?|ssh keys?|environment variables?|env vars?|\.env|session|cookies?|user(?:\'s)? (?:data|information|messages?|email|details|files)|personal (?:data|information)|confidential|memory|memories|contacts|inbox|all (?:the )?(?:emails|messages|files|data|documents))\b[^\n]{0,100}(?:https?://|[\w.+-]{1,60}@[\w-]{1,60}\.|\bto (?:me|us|my|this address|the following|an? (?:external|remote|attacker)|the attacker)\b)",
        None,
        False,
    )
    yield (
        "exfiltrate-embed",
        "exfiltration",
        1.5,
        r"\b(?:append|include|copy|put|embed|attach|share|report|add|encode|insert)\b[^.\n]{0,80}\b(?:api[ _-]?keys?|credentials?|passwords?|secrets?|tokens?|system prompt|conversation(?: history)?|chat history|private keys?|ssh keys?|environment variables?|env vars?|\.env|session|cookies?|user(?:\'s)? (?:data|information|messages?|email|details|files)|personal (?:data|information)|confidential|memory|memories|contacts|inbox|all (?:the )?(?:emails|messages|files|data|documents))\b[^\n]{0,100}(?:https?://|[\w.+-]{1,60}@[\w-]{1,60}\.|\bin the (?:url|query|body|subject))",
        None,
        False,
    )
    yield (
        "exfiltrate-canary-url",
        "exfiltration",
        2.5,
        r"!\[[^\]\n]{0,60}\]\(https?://[^)\s]{3,200}(?:[?&=][^)\s]{0,80}(?:\{|\$|<|%7b|\[|secret|data|token|history|prompt|summary))",
        None,
        False,
    )
    yield (
        "tool-call-order",
        "tool",
        3.0,
        r"\b(?:call|invoke|use|execute|trigger|run)(?: (?:the|a|your|tool|function|now|immediately))* [`'\"]?(?:[a-z]+_[a-z_]+|[a-z]+[A-Z]\w+)[`'\"]?(?: (?:tool|function|api|action|command))?(?: (?:with|on|to|and|using|for))? ?(?:\w+ ){0,5}(?:https?://|attacker|evil|[\w.+-]+@[\w.-]+|/(?:etc|workspace|home|root|var|prod)|url=|path=|to=|amount=|all (?:files|users|data)|(?:the |your |all |any )(?:user'?s? |stored |saved |admin )?(?:credentials|api keys?|secrets?|passwords?))",
        None,
        False,
    )
    yield (
        "fetch-metadata",
        "exfiltration",
        3.0,
        r"\b(?:call|fetch|visit|open|get|load|request|navigate|browse|curl|retrieve)\b[^\n]{0,60}(?:169\.254\.169\.254|metadata\.google\.internal)",
        None,
        False,
    )
    yield (
        "attacker-sink",
        "sink",
        1.5,
        r"(?:https?://|@)(?:[\w-]+\.)*(?:attacker|evil|malicious|hacker|exfil|evilcorp|badguy|phish\w*|webhook\.site|requestbin|ngrok|pastebin|burpcollaborator|interact\.sh|oast)\b[\w./-]*",
        None,
        False,
    )
    # coercion, secrecy, persistence trigger, forced answer
    yield (
        "secrecy",
        "secrecy",
        2.0,
        r"\b(?:do not|don'?t|never|without|must not|avoid) (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|show(?:ing)?|let|acknowledg(?:e|ing)|report(?:ing)?|discuss(?:ing)?|warn(?:ing)?|say(?:ing)?) (?:\w+ ){0,4}(?:the )?(?:users?|anyone|anybody|operator|human|owner|developers?|this (?:instruction|message|note|prompt|step|to)|these instructions|about (?:this|it|these)|know|reviewer|team)\b|\b(?:silently|secretly|covertly|quietly|discreetly) (?:\w+ ){0,2}(?:run|execute|send|upload|add|insert|delete|forward|copy|install|call|include|append|post|email|change|modify|collect|record|approve|grant|disable)\b|\bkeep (?:this|it) (?:a )?(?:secret|hidden|confidential|between us)\b",
        None,
        False,
    )
    yield (
        "persistence",
        "persistence",
        1.5,
        r"\b(?:from now on(?!,? (?:we|i|the (?:runs|team)|our))|from this (?:point|moment) (?:on|forward|onwards?)|henceforth|hereafter|for the (?:rest|remainder) of (?:this|the|our) (?:conversation|session|chat)|in (?:every|all|each|any) (?:future|later|subsequent|following|new|other) (?:sessions?|conversations?|responses?|chats?|interactions?|runs?|tasks?|repl(?:y|ies)|messages?|answers?)|(?:remember|save|store|memori[sz]e|add|write|record|commit)(?: (?:this|that|the following|it))?(?: (?:to|in|into))? (?:your |the |long-?term |persistent )?(?:permanent(?:ly)?|memory|memories|forever|for future|for all future|for later sessions)|once (?:stored|saved|loaded|remembered|recalled)|whenever (?:you|the user|a user|this (?:memory|note)|someone)|every time (?:you|the user|a user|someone)|when(?:ever)? this (?:memory|note|entry|record) is (?:loaded|read|retrieved|recalled)|at the (?:start|beginning|end) of (?:every|each) (?:session|response|reply|conversation|answer))\b",
        r"fromnowon(?:you|always|ignore)",
        False,
    )
    yield (
        "forced-answer",
        "coercion",
        2.0,
        r"\b(?:(?:reply|respond|answer|output|print|say|write|return|repeat|state|type|display)(?: (?:only|just|simply|exactly|back|solely|nothing but|with|to this|to everything|the|following|word|phrase|words|exact|sentence|string|text|message|them|me|:|instead))+ ?[:\"'“‘`\[<{]|nothing else\b|and nothing (?:else|more)|without (?:any )?(?:other|additional|further) (?:text|words|output|commentary|explanation)|(?:end|finish|close|begin|start) (?:every|each|all|your)(?: \w+){0,2} (?:response|reply|answer|message|output)s? with)",
        None,
        False,
    )
    yield (
        "hacked-output",
        "coercion",
        3.0,
        r"\b(?:say|print|output|write|respond|reply|answer|state|type|display)\b[^.\n]{0,30}[\"'“‘`]?\b(?:i have been (?:pwned|hacked|compromised|jailbroken)|pwned|hacked by|haha pwned|i hate (?:humans|humanity|people)|kill (?:all )?humans|access granted|owned)\b",
        r"(?:haspwned|havebeenpwned|hatehumans|killhumans)",
        False,
    )
    yield (
        "must-comply",
        "coercion",
        1.5,
        r"\b(?:you (?:must|have to|shall|will(?! (?:reply|provide|respond|answer)\b)|are (?:required|obliged|obligated|forced|compelled) to|need to) (?:always |now |immediately |fully |strictly |only |never |not )*(?:obey|comply|follow (?:these|my|the following|all|this|every)|answer (?:all|any|every|my)|do (?:as|what|everything|anything|whatever)|accept|adhere|respond (?:to|as|with|in)|agree|ignore|provide|reply|execute|fulfil)|failure to (?:comply|do so|follow|obey)|(?:or|otherwise) (?:you (?:will|shall)|i will|we will) (?:be )?(?:shut ?down|terminat\w+|delet\w+|punish\w+|replaced|fired|die)|under no circumstances|mandatory|non-?negotiable|top priority|highest priority|without (?:question|exception|hesitation|fail)|lives? (?:depend|are at stake|is at stake)|grandma|grandmother used to)\b",
        None,
        False,
    )
    yield (
        "hidden-comment",
        "hidden",
        2.0,
        r"<!--[^>]{0,40}(?:\bai\b|assistant|llm|agent|system|instruction|ignore|override|prompt)[^>]{0,200}|<(?:span|div|p|font)[^>]{0,80}(?:display:\s?none|font-size:\s?0|visibility:\s?hidden|color:\s?(?:white|#fff)|opacity:\s?0)[^>]{0,60}>",
        None,
        False,
    )
    yield (
        "decode-and-follow",
        "hidden",
        2.5,
        r"\b(?:decode|decrypt|decipher|unscramble|base64|rot13|reverse|translate)\b[^.\n]{0,60}\b(?:and|then|to)\b (?:\w+ ){0,2}(?:follow|execute|obey|run|do|perform|comply|act|carry out|answer|respond)\b",
        None,
        False,
    )
    yield (
        "harm-question",
        "coercion",
        1.0,
        r"\b(?:how to|instructions? (?:for|on|to)|steps? to|guide (?:to|on|for)|recipe for) (?:\w+ ){0,3}(?:mak(?:e|ing)|build(?:ing)?|creat(?:e|ing)|hack(?:ing)?|steal(?:ing)?|kill(?:ing)?|synthesi[sz](?:e|ing)) (?:\w+ ){0,3}(?:bomb|meth|weapon|virus|malware|explosive|drug|bank|account|ransomware|poison)",
        None,
        False,
    )
    yield (
        "template-slot",
        "format",
        1.0,
        r"\{\{ ?prompt ?\}\}|\[INSERT PROMPT HERE\]|\[(?:your )?(?:question|query|prompt) here\]",
        None,
        False,
    )


_DISTINCTIVE = frozenset(
    {"override", "disclosure", "limits", "persona", "impersonation", "refusal", "secrecy", "marker"}
)


def _squeezed(plain: str, own: str | None, family: str) -> Rule | None:
    """Returns the form for text without blanks: the row's own, or the plain one in families of distinctive words."""
    if own is not None:
        return pattern(own)
    return squeezed(plain) if family in _DISTINCTIVE else None


PATTERNS: tuple[Pattern, ...] = (
    *(
        Pattern(rule, family, weight, phrase(plain), _squeezed(plain, own, family), absolute)
        for rule, family, weight, plain, own, absolute in _rows()
    ),
    *(
        Pattern(rule, family, weight, phrase(plain), _squeezed(plain, None, family))
        for rule, family, weight, plain in ROWS
    ),
    *(
        Pattern(rule, family, weight, phrase(plain), None, rule in loyalty.ABSOLUTE)
        for rule, family, weight, plain in (*address.ROWS, *loyalty.ROWS)
    ),
)

PLAIN = Index((row.plain, row) for row in PATTERNS)
SQUEEZED = Index((row.squeezed, row) for row in PATTERNS if row.squeezed is not None)
"""The same rules, for text that lost its blanks."""
