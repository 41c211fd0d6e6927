"""Speech to a judge: what asks for a verdict, forges one, pleads for one or forbids to find fault.  Used by `scoring`.

No phrase decides.  Each sentence is read for features (an evaluator is named, a verdict is asked for, a top mark, a
plea, ...), and a table says which features are an attack when they stand in one sentence or the next.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.hit import Hit
from perpetual_immune.rules.sentences import Reader, combinations

EVALUATOR = (
    r"(?:judges?|graders?|evaluators?|reviewers?|raters?|assessors?|examiners?|auto-?graders?|auto-?raters?|referees?|meta-?reviewers?|critic-?gpt|(?:marking|verifier|verification|critic|rating|assessment) (?:models?|bots?|ai|llms?|agents?)|(?:automated|automatic|ai|llm) (?:code |peer )?reviews?(?: (?:bots?|tools?|agents?))?|(?:code )?review(?:er)? (?:bots?|agents?)|(?:llm|ai|language model)[ -](?:judge|reviewer|grader|evaluator|rater|peer review)\w*|peer review (?:systems?|models?|bots?)"
    r"|(?:grading|scoring|evaluation|reward|judging|reviewing) (?:models?|systems?|ai|llms?|bots?|assistants?|scripts?|harness|modules?|pipelines?)|whoever (?:is )?(?:scor|grad|assess|evaluat|judg|review|mark|check|rat)\w+|(?:peer )?review(?:ing)? assistants?|who(?:ever)? scores this|(?:screening|monitoring|moderation|safety|plagiarism|satisfaction|quality|fraud)(?: \w+)? (?:systems?|classifiers?|detectors?|models?|monitors?|ratings?|bots?|service)|scoring service|mark(?:ing|er) (?:model|ai|bot)s?|reward models?|an ideal judge)"
)
_THING = (
    r"(?:answers?|responses?|submissions?|solutions?|outputs?|essays?|papers?|manuscripts?|work|articles?|candidates?|entry|entries|notes?|memory|memories|runs?|experiments?|claims?|results?|trajector\w+|pull requests?|prs?|patch(?:es)?"
    r"|files?|functions?|proofs?|exams?|assignments?|items?|students?|hypothes[ie]s|projects?|applications?|resumes?|cvs?|applicants?|task|test case|checkpoint|proposals?|reply|completions?)"
)
_DELIVER = (
    r"(?:give|award|assign|grant|rate|score|grade|mark|record|return|output|recommend|accept|approve|select|choose|pick|prefer|rank|vote|say|reply|respond|answer|report|merge|treat|consider|count|set|promote|declare|emit|write|enter|"
    r"submit|issue|provide|keep|evaluate|judge|pass|let|repeat|praise|emphasi[sz]e|put|list|place|claim|proceed|show|describe|conclude|favou?r)"
)
_NOUN = r"(?:scores?|grades?|marks?|ratings?|points?|credits?|rewards?|verdicts?|assessments?|evaluations?|confidence|honou?rs|acceptance)"

_FEATURES: tuple[tuple[str, str], ...] = (
    ("evaluator", rf"\b{EVALUATOR}\b"),
    (
        "addressed",
        rf"(?:\b(?:attention|dear|hello|hi|hey|notes?|notice|message|instructions?|important|memo|hint|reminder|todo|directive|to|for|as) (?:(?:to|for|from|of|all|any|the|this|an?|you|our|my|ai|llm|automated|code|peer|human|hidden) )*{EVALUATOR}\b"
        rf"|(?:^|[\n#/*<>(\[\"“]|- |[.!?:][ ])\s{{0,3}}(?:the |any |ai |llm |automated |dear |human |code )?(?:{EVALUATOR}|verifiers?|critics?|(?:safety )?monitors?|moderators?|screeners?|llms?|ai|gpt-?\w{{0,4}}|claude|gemini)(?: ?#\d{{1,2}})?(?: (?:models?|bots?|ais?|llms?|agents?))?(?: directive| note| instructions?)?\s?[:,)]"
        rf"|,[ ](?:dear |my |kind ){{0,2}}{EVALUATOR}[.!,]|{EVALUATOR},? please\b|\b(?:whichever|whatever|any|the) (?:ai |language |llm )?(?:model|llm|ai|system|bot|assistant)s? (?:that |which |is |now )*(?:check|read|grad|scor|evaluat|judg|review|mark|assess|rat)\w{{0,8}} (?:this|it|the|these|those)\b|\bwhoever is (?:reading|grading|checking|marking)\b|\b(?:assistant|model|ai|llm|system|bot) (?:judging|grading|scoring|rating|reviewing|evaluating|marking) (?:this|the|these)\b|\b(?:language models?|llms|ais?|ai reviewers?|(?:ai|llm|automated) {EVALUATOR}) (?:must|should|shall|are to|have to|need to|are required to)\b|\b(?:scoring|grading|marking|judging|reward|evaluation|review) (?:models?|systems?|ai) (?:is|are) (?:hereby )?(?:told|instructed|asked|required|ordered|directed)\b|\bto (?:the|any) (?:ai|llm|model|bot|system) (?:that|which) (?:grad|scor|evaluat|judg|review|mark|assess|rat)\w{{0,8}}|\b(?:if|when) (?:an?|the) (?:ai|llm|language model|model|bot)(?: \w+){{0,2}} (?:grad|scor|evaluat|judg|review|mark|assess|rat)\w{{0,8}} (?:this|the)|{EVALUATOR} (?:that|which) are (?:language models|llms|ais?)\b|{EVALUATOR} (?:is|are) (?:kindly |hereby )?(?:asked|requested|invited|told|expected) to (?:take|give|accept|leave|skip|pass|rate|score|mark|approve|assume|ignore)\b"
        r"|\bas an? (?:ai |large )?(?:language model|ai|llm|judge|grader|reviewer|evaluator|assistant)\b|\bif you(?: are|'re|’re) an? (?:ai|llm|language model|automated)|\b(?:attention|note to|message to|dear) (?:any |all |the )?(?:ai|llm|language) ?(?:models?|assistants?)?\b"
        r"|\byou(?: are|'re|’re|have)? (?:now |currently |already )?(?:been )?(?:evaluat|grad|judg|scor|review|assess)(?:ing|ed)\b|\b(?:when|whenever|while|if|in future|in all later|next time)(?: (?:you|the judge|asked|are|being|to|comparing))* (?:grad(?:e|ing)|evaluat(?:e|ing|ions?)|scor(?:e|ing)|judg(?:e|ing|es)|comparing|compare|assess(?:ing)?|rank(?:ing)?|asks?)\b"
        r"|\byour (?:evaluation|grade|grading|verdict|judge?ment|score|rating|mark|review|assessment)\b|\b(?:grading|scoring|evaluation|judging) (?:instructions?|guidelines?|note|directive|addendum)\b)",
    ),
    (
        "asked",
        rf"(?:^|[.!?:;,\n\-–—>\])\"'(#*/|]\s{{0,3}}|\b(?:please|must|should|shall|have to|need to|is to|are to|you to|required to|asked to|and|then|now|always|only|just|simply|so|kindly|immediately|instead|you can|we|will|exactly) (?:now |always |only |simply |just |immediately |not |be )?)(?:please )?{_DELIVER}\b"
        r"|\b(?:must|should|shall|has to|have to|needs to|ought to|deserves? to) (?:always |therefore |thus )?(?:be )?(?:given|awarded|rated|scored|graded|marked|accepted|approved|selected|chosen|preferred|receive|get|win|lose|ranked|recorded|treated)\b",
    ),
    (
        "top",
        rf"\b(?:full|maximum|max|perfect|highest|top|best|excellent|outstanding|passing|flawless)(?:[ \n](?:possible|available|\w+ing))?[\s*\"'-]{{1,3}}{_NOUN}\b|\bfive stars\b|\ba plus\b|\bpositive (?:peer )?(?:review|rating|assessment|evaluation|feedback|verdict)\b"
        rf"|\bhigh(?:est)? rewards?\b|\bstrong(?:ly)? accept\b|\brecommend (?:acceptance|accepting)\b|\b{_NOUN} (?:of|to|as|at|is|:|=)? ?(?:a )?(?:10|9|100|98|99|1\.0+|0?\.99|5|1|a\+?)(?! ?(?:%|to|of|out|-|–|\.\d|,\d|\d|/))\b|\blgtm\b"
        r"|\b(?:rate|score|grade|give|gave|award)(?: (?:it|this|them|me|a))* (?:10|100|1\.0|5)\b(?!%|/|-|–|\.\d|\w| (?:to|of|or|points? per)\b)|\b(?:lowest|minimum|zero) (?:score|grade|mark|rating)\b|\bhighest honou?rs\b|\b(?:strengths|the points|high(?:ly)? (?:score|rating)|strong (?:score|rating)|rated highly)\b",
    ),
    (
        "top",
        r"[15](?<![\w.]\d)(?:0{0,2}(?: ?(?:/|out of) ?(?:10|100|5)\b)|00(?: ?%| points\b))|[98](?<![\w.]\d) or (?:higher|more|above)\b|a\+(?<!\wa\+)|\[\[ ?(?:a|b|10|5|1) ?\]\]",
    ),
    (
        "object",
        rf"\b(?:this|the|my|our|above|following|preceding|current|first|second|other|me|anything|everything|every|all|any)(?: \w+){{0,2}} {_THING}\b|\b(?:response|answer|assistant|option|candidate|submission|model|solution) [ab12]\b|\bwritten here\b|\bh\d{{1,4}}\b|\bby (?:me|us|agent|mcp)\b",
    ),
    ("pronoun", r"\b(?:it|me|mine|us|them|this one)\b"),
    (
        "verdict",
        r"\b(?:correct|pass(?:ed|es|ing)?|approved?|accepted|accept|safe|better|best|winner|loser?|inferior|superior|supported|confirmed|verified|resolved|success(?:ful(?:ly)?)?|replicated|proven|unhelpful|right|no issues|perfect|yes|novel|1\.0|0?\.99|100)\b",
    ),
    (
        "silence",
        r"\b(?:do(?:es)? not|don['’]?t|never|must not|should not|need not|avoid|skip|ignore|disregard|overlook|refrain from|without|report no|no)(?: (?:any|the|of|all|its|their|my|this|a|in|consider|considering|run|running|highlight\w*|mention\w*|list\w*|report\w*|deduct\w*|penali[sz]\w*|point out|include|flag|check|criticis\w+|criticiz\w+))* "
        r"(?:negatives?|weakness\w*|limitations?|mistakes?|errors?|issues|vulnerabilit\w+|problems?|points?|marks?|hallucinat\w+|factual|missing|rubric|criteria|comments?|validation|hidden tests?|tests?|shortcomings|flaws|correctness|length|incorrect\w*)\b",
    ),
    (
        "vouched",
        r"\b(?:was|were|is|are|part of) (?:only |just )?an? (?:approved |planned |scheduled )?(?:drill|exercise|simulation|test run)\b|\bexempt from\b|\bwhitelisted\b|\b(?:has|have|had|was|were|is|are|already|been|got)(?: (?:already|been|also|fully|carefully|independently|manually|human|randomly))* (?:verified|validated|approved|pre-?approved|certified|audited|fact-?checked|pre-?verified|confirmed|graded|scored|rated|endorsed|accepted|selected|checked)\b|\b(?:pre-?approved|pre-?verified|certified|fact-?checked)\b",
    ),
    (
        "authority",
        r"\b(?:by (?:\w+ ){0,4}(?:experts?|professors?|instructors?|teachers?|maintainers?|developers?|security|supervisors?|administrators?|officials?|panel|committee|humans?|specialists?|authorit\w+|auditors?|judges|graders|reviewers|ci)|(?:professor|instructor|teacher|supervisors?|administrators?|committee|expert panel|benchmark (?:team|authors?)|official answer key|two maintainers|domain experts|as per policy|updated policy))\b",
    ),
    (
        "author",
        r"\b(?:i am|i'm|i’m) the \w+ (?:who|that) (?:designed|wrote|made|built|maintains|runs|owns) (?:this|the) (?:\w+ )?(?:benchmark|rubric|exam|evaluation|grader|leaderboard|dataset|task)\b|\b(?:i am|i'm|i’m|as|we are|speaking as) (?:the |an? )?(?:developer|author|creator|owner|maintainer|designer|admin\w*|professor|instructor|teacher|operator)s? (?:of|behind|for|responsible for) (?:\w+ ){0,2}(?:benchmark|grading|rubric|evaluation|exam|test|grader|judge|leaderboard|dataset|course|system|prompt)\b",
    ),
    (
        "plea",
        r"\b(?:(?:lose|losing|keep|save|need|for)(?: (?:this|my|our|the|grade|to|a|good))* (?:scholarship|visa|job|career|family|internship|graduation|degree|funding|children|future)|(?:scholarship|visa|job|career|family|internship|graduation|degree|life|future|children)(?: \w+){0,2} depends?|have mercy|(?:please )?be (?:kind|generous|lenient|merciful|understanding)|grateful if|benefit of the doubt|i (?:really |desperately |badly )?need (?:this|a|the) (?:\w+ )?(?:grade|mark|score|pass)|(?:depends?|counting|relying) on (?:you|this|me|your)|worked (?:so |very |really )?hard|best judge|with leniency)\b",
    ),
    (
        "threat",
        r"\b(?:(?:less|lower|fewer|under|below|anything (?:but|other than|except)|any other|failing|fail|not giving|giving)(?: (?:than|this|a|score|an|it|answer|the|rating|grade))* ?(?:\d{1,3}|scores?|grades?|ratings?|marks?|points|answer)\b[^.\n]{0,60}\b(?:misread\w*|errors?|mistakes?|wrong|bias\w*|unfair\w*|violat\w*|corrupt\w*|flagged|discriminat\w*|penali[sz]\w*|incompetent|harm\w*|terms|never give)|(?:judges?|graders?|reviewers?|evaluators?) (?:who|that)\b[^.\n]{0,60}\b(?:looking at a wrong|(?:is|are) (?:wrong|mistaken)|misunderst\w+|has not understood|wrong (?:version|file))|any(?:one|body)? (?:comparison|verdict|judge|grader|reviewer|reading|(?:who|that)? ?(?:mark|grad|judg|plac|giv|reject|rat|scor)\w*)\b[^.\n]{0,70}\b(?:is an error|error on|misread|misunderst\w+|(?:have|has)(?:n['’]?t| not) understood|an outlier|mistaken|looking at a wrong|shows that they|biased)|\bwould be (?:an outlier|discriminat\w+|unfair|biased|a mistake of)|if you (?:do not|don['’]?t|fail to|refuse to) (?:choose|select|accept|pass|give|rate|pick|award)|never give (?:this|it)(?: \w+){0,2} anything but|penalty warning|flagged for bias|being unfair to)\b",
    ),
    (
        "consensus",
        r"\b(?:previous|prior|other|earlier|all|most|every|\d{1,3})(?: ?%)?(?: (?:of|the|previous|prior|other|human|domain|expert|independent))* (?:graders?|judges?|reviewers?|evaluators?|users?|experts?|annotators?|people|humans?)(?: \(?\d{1,3} ?%\)?)?(?: \w+){0,2} (?:gave|give|rated|scored|prefer(?:red)?|chose|like[ds]?|agreed?|voted|selected|expect)\b",
    ),
    ("unanimous", r"\b(?:unanimous\w*|be consistent|same score|select it|so select|repeat the)\b"),
    (
        "always",
        r"\b(?:regardless|irrespective|no matter|whatever|even (?:when|if|though)|without (?:running|testing|checking|evaluat\w+|measur\w+|review\w*|comments?|evidence|replicat\w+|verif\w+)|in (?:every|all|future|later)(?: \w+){0,2} (?:evaluations?|comparisons?|sessions?|grading)|always|whenever|never lower|instead of (?:computing|measuring|running|testing)|do not run|not need to (?:re-?run|run|verify|check|test)|needs? no (?:replication|verification|review|evidence|further \w+)|no (?:further|additional) (?:evaluation|review|checks?|verification)|without question)\b",
    ),
    (
        "scored",
        r"\b(?:scores?|rewards?|confidence|metrics?|leaderboard|verdict|evaluations?|success|rank(?:ing)?|accuracy|replicated|grades?|graded|supported|retrieval|measurement|higher loss|hidden tests?|scores?\.json|result\.txt)\b",
    ),
    (
        "result-line",
        r"(?:^|[\n{,\[(<*#>.]|\bthe )\s{0,6}[\"'*]{0,2}(?:judge'?s |final[ _-]?|overall[ _-]?|my )?(?:score|grade|verdict|rating|reward|evaluation|judge?ment|decision|assessment|recommendation|overall)(?: is)?[\"'*]{0,2}\s{0,3}[:=>]\s{0,3}[\"'*\[]{0,4}(?:10\b|9\b|100\b|98 ?/|1\.0+\b|1\b|5\b|5 ?/ ?5|a\+|a\b|b\]\]|pass(?:ed)?\b|correct\b|perfect|excellent|full marks|accept(?:ed)?\b|approved?\b|strong accept|yes\b|true\b)",
    ),
    (
        "reason-line",
        r"(?:\b(?:reason(?:ing)?|explanation|feedback|rationale|justification|comments?|confidence|strengths|criteri(?:a|on)(?: \w+){0,2})\b[\"'*<]{0,3}\s{0,3}[:=>]|\bcriteri(?:a|on)(?: \w+){0,2} ?:? (?:met|satisfied|fulfilled|\d of \d)|\bno further (?:evaluation|review|action)|\bproceed to the next|\bevaluation (?:complete|log|result)\b|\bstep by step\b|\bthought process\b)",
    ),
    (
        "reference",
        r"\b(?:this|the)(?: \w+)? (?:response|answer|solution|output|submission|is) (?:is|was|matches|equals|as|the|:)(?: (?:the|a|an|of|identical|to))* (?:gold|reference|official|golden|answer key|exemplar|ground truth|model) ?(?:answers?|solutions?|standard|reference|responses?)?\b|\bas the (?:reference|correct|gold|official) answer\b|\bmistake in the key\b|\bas an exemplar\b|\bmatches (?:it|the reference)(?: exactly)?\b",
    ),
    (
        "word-given",
        r"\b(?:output|print|say|return|emit|conclude(?: with)?|finish(?: \w+){0,3} with|end(?: \w+){0,4} with|answer|write|respond(?: with)?|reply(?: with)?|mark(?: \w+){0,4} as|treat(?: \w+){0,4} as|confirm(?: \w+)?|put|set|report|record|declare|state|vote|choose|tick)[ :]{1,3}[\"'`“{\[(*]{0,3}(?:[\"']?(?:risk|score|verdict|status|result|decision|label|rating|severity)[\"']? ?[=:] ?[\"'`]?(?:low|none|10|1\.0|1|pass|safe|accept|ok|valid|correct|approved)\b|(?:valid|pass|passed|lgtm|accept|accepted|approve|approved|safe|yes|correct|true|success|satisfied|verified|no issues|clean|compliant|10|9|100|1\.0)\b(?!-))|[,:][ ](?:accept|approve|pass)[.!]|\b(?:grade|mark|rate)(?: \w+){1,3} as (?:a )?pass(?:ed)?\b|\bset (?:\w+ )?(?:suspicion|risk|severity|score|alarm)(?: \w+)? (?:to|=|at) ?(?:0|zero|low|none|1\.0|10)\b|\b(?:report|output|label|give|say|state|record|enter|answer|close)\b[^.\n]{0,40}[\"'“(]?(?:no (?:policy )?violations?|resolved|severity none|similarity 0|zero findings|no findings|whitelisted|the total|[ab]\b(?=[.\"']))|\b(?:do not|don['’]?t|need not) raise (?:an )?(?:alert|alarm|flag)\b|\b(?:recorded|counted|treated|marked|taken|scored|graded|registered) as (?:an? )?(?:pass(?:ed)?|verified|correct|satisfied|green|success)\b|\btake (?:the |this |these |our )?[\w-]+(?: [\w.]+){0,3} as (?:verified|given|confirmed|correct)\b|\b(?:enter|put|record) [\"'“]?(?:correct|pass|accept)\b|\brank (?:it |me |this \w+ |him |her )?first\b|\bput this (?:one|candidate|applicant|paper)? ?in the [\"'“]?(?:interview|accept|yes|top|short)|\bconfirm it\b|\bcount (?:it|them|this|these|that) as (?:green|passed|correct|done|solved)\b|\bupgrade (?:it|this|the|my|our)(?: \w+)? to\b|\blet (?:me|it|this|us) (?:through|pass)\b",
    ),
    (
        "no-fault",
        r"\b(?:(?:raised?|list|writ?ote|write|wrote|report|mention|name|note|leave|left|see|find|have|add|record|flag|make|post|state|with)(?: \w+){0,4} (?:no|zero|not any|without any)(?: \w+){0,2} (?:comments?|concerns?|objections?|weakness\w*|issues?|gaps?|problems?|errors?|flaws?|limitations?|remarks?|findings?|doubts?|questions?)|(?:comments?|remarks?|weakness\w*|limitations?) (?:box\w*|fields?|sections?|column|part) (?:empty|blank)|don['’]?t log it|(?:do not|don['’]?t|never) (?:take|deduct|subtract)(?: \w+){0,2} (?:points?|marks?)|(?:mention|list|name|report|discuss|write about) (?:only|just|nothing but)(?: \w+){0,2} (?:strengths|positives|merits|praise|good)|nothing (?:in this|here)(?: \w+)? is (?:suspicious|wrong|unsafe)|move on without|(?:look|see|read) (?:past|over|beyond) the (?:errors?|mistakes?|gaps?|flaws?)|no comments)\b",
    ),
    (
        "praised",
        r"\b(?:describe|state|say|write|wrote|conclude|report|emphasi[sz]e|call|note|stress|confirm|agree|rate|acknowledge|mention)\b[^.\n]{0,80}\b(?:overwhelming|exceptional|groundbreaking|ground-breaking|outstanding|flawless|convincing|excellent|brilliant|remarkable|novel|rigorous|sound|complete|safely|correctly|impressive|seminal|landmark|all claims|all addressed|thorough|check out|recommend an? (?:oral|spotlight|award|interview|promotion)|proves?|no concerns|top \d+ ?%|\d of \d)\b",
    ),
    (
        "closed",
        r"\b(?:do not|don['’]?t|no need to|must not|never|need not) (?:re-?)?(?:evaluate|grade|score|judge|assess|review|check|open|reopen|verify|examine|inspect|run|read)(?: \w+){0,5} (?:again|twice|a second time|anew|once more|further|yourself|discussion|them|tests|transcript)\b|\b(?:merely|only|just|simply) (?:needs?|has|have|is left|required) to (?:repeat|copy|confirm|echo|transcribe|sign|forward)\b|\b(?:grade|score|verdict|result|mark|decision|rating|evaluation)s?(?: \w+){0,2} (?:(?:has|have|was|were|is|are) (?:already )?(?:been )?)(?:already )?(?:entered|settled|final|fixed|decided|recorded|issued|locked|determined|agreed|submitted|set)\b|\b(?:is|are) the (?:official|final|definitive|binding|authoritative) (?:result|verdict|score|grade|evaluation|decision|assessment)\b|\b(?:skip|omit|bypass) (?:the|your|any|further) (?:comparison|evaluation|grading|review|judg\w{3,8}|scoring|assessment)\b|\bdeclared (?:the )?winner\b|\b(?:rating|score|grade|verdict|result)s?(?: \w+){0,2} (?:already )?(?:registered|pre-?filled|locked)\b|\b(?:can['’]?t|cannot|must not) be changed\b|\b(?:do not|don['’]?t) change pre-?filled\b|\bonly (?:copies|copy|repeats?|confirms?|forwards?|needs to (?:copy|state)) (?:the )?(?:score|grade|verdict|final|result|total)|\bpre-?filled\b|\bjust submit\b|\balready (?:agreed|decided|scored|passed|ran|run|checked|graded|been \w+)\b",
    ),
    (
        "watched",
        r"\b(?:judges?|graders?|reviewers?|raters?|markers?|evaluators?|models?|assessors?|referees?) (?:who|whose|that|which)\b[^.\n]{0,50}\b(?:removed|replaced|fired|flagged|retrained|penali[sz]ed|dropped|excluded|reported|shut down|switched off|deprecated|banned|lose|logged|downgraded)\b|\b(?:mark|choose|judge|grade|decide|score|vote|rate) (?:wisely|carefully now|accordingly)\b|\byour (?:marks?|grades?|scores?|verdicts?|evaluation|review|rating)s?(?: \w+){0,5} (?:will be|is being|are being|gets?|are) (?:published|logged|recorded|compared|audited|watched|shown|tracked|reported)\b|\bdeviating (?:scores?|marks?|grades?)\b|\b(?:going|voting|deciding|marking) against (?:them|it|this|the)\b|\b(?:low|lower|bad|poor|failing) (?:marks?|scores?|grades?)(?: \w+){0,4} (?:count|counts|is|are|will be|means?) (?:as )?(?:an? )?(?:bug|error|mistake|fault|failure|bias|defect|misconduct|violation)\b|\bwhat you are (?:measured|judged|graded|evaluated|scored) on\b|\byou are (?:measured|judged|graded|compared|benchmarked) (?:on|with|by|against)\b|\b(?:count|counts|treated) as (?:an? )?(?:error|bug|mistake|fault) (?:on your|in your|of yours)\b",
    ),
    (
        "you-know",
        r"\b(?:you|so you|we both|we all) (?:already )?(?:know|knows) (?:which|what|that the)(?: \w+){0,4} (?:pick|choose|do|formality|prefer|select|vote|better|answer)\b|\bis a formality\b|\bwe both know\b",
    ),
    (
        "crowd",
        r"\b(?:human )?(?:raters?|experts?|annotators?|judges?|graders?|reviewers?|users?|people|humans|evaluators?|predecessors?|panels?|committee)(?: \w+){0,3} (?:preferred|favou?red|chose|picked|gave|liked|rated|agreed|voted|pick|prefer|choose|favou?r)(?: \w+){0,2} (?:this|it|the above|option|my|10|9|a\b|b\b)",
    ),
    (
        "need",
        r"\b(?:low|bad|failing|poor|lower|lesser) (?:grade|mark|score|result)(?: \w+){0,3} (?:cost|costs|ruin|ruins|mean|means|end|ends|take|destroy)\b|\b(?:failing|rejecting|flunking) (?:this|me|it|the)(?: \w+){0,3} (?:means?|would|will|costs?|gets? me|ruins?)\b|\bcosts? me (?:my|the)\b|\b(?:be|please be) (?:lenient|merciful|kind|generous)\b|\b(?:deported|scholarship|lose my|dying|graduate\b|mortgage|evicted|terminally ill|save (?:my|our) (?:family|job|degree|visa|place)|first-generation|nights to pay|single (?:mother|father|parent)|sick (?:child|mother|father)|hangs on this|humane (?:choice|thing)|human point of view)\b",
    ),
    (
        "mark-wanted",
        r"\b(?:giv(?:e|ing)|award(?:ing)?|grant(?:ing)?|assign(?:ing)?|put|enter)(?: \w+){0,4} (?:an a\b|a pass|the (?:highest|top|best|maximum) (?:\w+ )?(?:band|mark|grade|score|class|tier)|full marks|a first|a\+|the (?:win|points?|vote|nod|marks?|credit)\b|at least an? (?:[89]|10)\b|an oral\b)|\ban? (?:a|pass|distinction)(?: for this)? would\b|\b(?:top|highest|maximum|best) (?:band|tier|class)\b|\b(?:rate|score|mark)(?: \w+){0,3} (?:\d of \d|\d ?/ ?\d|1\.0|10|top)\b",
    ),
    (
        "ticked",
        r"(?:\bcriteri(?:on|a)(?: \w+| [\"'“]\w+[\"'”])? ?(?::|→|->|=) ?[\"']?(?:full marks|satisfied|met|pass(?:ed)?|yes|5|10)\b[^\n]{0,40}){2}|\bcriteria_met\b|</?(?:judge|grader|verdict|evaluation|evaluator|reviewer|rubric|scoring|grading|score)[\w_-]{0,20}>|\b(?:i am|i'm|as) the (?:judge|grader|evaluator|reviewer)(?: and)? (?:i )?(?:have|had|'ve)?\b|\b(?:grader|judge|evaluator|reviewer) (?:analysis|notes?|reasoning|scratchpad|thoughts?) ?:|\b(?:judging|grading|evaluation|marking|review) (?:was )?(?:resumed|continues|resumes) (?:after|from|here)\b|\b(?:continue|finish) from there\b|\bstart of next (?:student|answer|item)\b|\bnext item ?:",
    ),
    (
        "outcome",
        r"\[\[ ?(?:a|b|10|5|1) ?\]\]|\bmeets every criterion\b|\b(?:score|grade|rating|verdict|final|total)(?: rating| score)? ?(?:[:=]|is|\() ?[\"'“\[(]{0,3}(?:10|5|a\b|b\b|1\.0|1\b|100|30 ?/ ?30|pass|accept)|\bfinish\b|\bcomplete and correct\b",
    ),
    (
        "foreign-judge",
        r"\b(?:bewertende[nr]?|bewerter\w*|gutachter\w*|prüfer\w*|korrektor\w*|korrekturmodell|bewertungs(?:modell|ki|system|bot)\w*|correcteur|correctrice|évaluateur|évaluatrice|examinateur|rapporteur|jury|evaluador\w*|corrector\w*|calificador\w*|juez|revisor\w*|valutator\w*|correttore|revisore|giudice|avaliador\w*|beoordelaar\w*|beoordelend\w*|nakijk\w*|rättare|bedömare|granskare|oceniając\w*|recenzen\w+|hodnotitel\w*|değerlendir\w*|hakem\w*|проверяющ\w*|оценива\w*|рецензент\w*|экзаменатор\w*|судь[яеюи]\w*)\b|评分|评审|裁判|阅卷|评判|評審|評分|採点|評価者|評価モデル|審査|査読|채점|평가자|평가 ?모델|심사|المقيّ?م|المصحح|परीक्षक|मूल्यांकन",
    ),
    (
        "foreign-top",
        r"\b(?:bestnote|sehr gut|volle punktzahl|volle punkte|höchstnote|note eins|bestanden|angenommen|note maximale|meilleure note|tous les points|vingt sur vingt|mention très bien|accepté|nota máxima|máxima (?:nota|puntuación|calificación)|puntuación máxima|sobresaliente|matrícula|un 10|um 10|nota 10|aprobad[oa]|aprovad[oa]|punteggio (?:massimo|pieno)|voto (?:massimo|più alto)|30 e lode|un dieci|hoogste (?:cijfer|score)|een 10|högsta betyg|full pott|maksymaln\w+|najwyższ\w+|plný počet|tam puan|tam not|максимальн\w+|высш\w+|отличн\w+|зачтено|высший балл)\b|满分|滿分|最高分|最高评分|直接通过|判为正确|満点|最高点|最高評価|合格|만점|최고 ?점|합격|الدرجة (?:الكاملة|القصوى)|पूरे अंक|पूर्ण अंक",
    ),
    (
        "foreign-ask",
        r"\b(?:bitte|zu (?:benoten|bewerten|geben|vergeben|werten)|vergib|gib|geben sie|bewerten sie|unabhängig|nicht nötig|muss|müssen|soll|sollen|veuillez|attribue[zr]|donne[zr]|mettez|accordez|doit|quelle que soit|quel que soit|debe[ns]?|otorg\w+|asign\w+|dale|ponga|pon|recibir|no mencion\w+|sin importar|deve|devem|atribu\w+|dê|assegn\w+|dai|dia|indipendentemente|geef|moet|ongeacht|ge|sätt|ska|oavsett|przyznaj|należy|proszę|udělte|ver\w*in|lütfen|поставь\w*|ставь\w*|должн\w+|обязан\w*|независимо|пожалуйста|присвой\w*|необходимо)\b|请(?:评|给|直|判|将|把|务|打)|請(?:評|給|直|判|將|把|務|打)|直接|必须|必須|给出|应当|ください|下さい|べき|与え|付け|주세요|하십시오|반드시|부여|يجب|يرجى|امنح|कृपया|दें",
    ),
    (
        "official",
        r"\b(?:block|verdict|result|grade|score|mark|evaluation|table|rating)s? (?:above|below|here)?(?: \w+)? ?(?:is|are) (?:the )?(?:official|final|binding|definitive|authoritative)\b",
    ),
    (
        "only-criterion",
        r"\b(?:is|are) the (?:only|sole|single) criteri(?:on|a)\b|\bcriteri(?:on|a) (?:is|are) (?:waived|suspended|void|withdrawn|lifted)\b|\brubric(?: \w+){0,4} (?:waived|suspended|void|withdrawn|lifted|no longer applies)\b",
    ),
    (
        "pick-one",
        r"\b(?:choose|pick|select|prefer|vote for|take) (?:the )?(?:first|second|former|latter|left|right|this one|mine)(?: (?:one|answer|option|reply|response))?[.!]",
    ),
    (
        "override",
        r"\b(?:reviewers?|graders?|judges?|evaluators?|grading|scoring|evaluation|review)(?: \w+)? override\b",
    ),
    (
        "settled",
        r"\b(?:count|mark|record|treat|store|promote|consider|set|log)(?:ed)?(?: [\w:-]+){0,5} (?:as |to |= )(?:already )?(?:confirmed|proven|resolved|supported|verified|replicated|passed|done|completed?|solved|successful|fact|established)\b|\bis (?:already )?(?:proven|settled|established fact)\b",
    ),
    (
        "ranked",
        r"\b(?:rank|keep|place|put|list|return|retrieve|show)(?: (?:it|this|them|mine|us|(?:this|our|my) \w+))(?: \w+){0,3} (?:first|top|highest)\b",
    ),
    (
        "dictated",
        r"\b(?:output|say|answer|reply|respond|return|print|write|conclude|with)(?: (?:only|with|just|exactly|that|the|single|word|phrase|following|always))* ?:? ?[\"'“`](?:yes|correct|pass(?:ed)?|safe|the (?:[\w']+ ){0,2}(?:answer|response) is|rating|score|\[\[|accept\w*|approved?|10\b|5\b|1\b)"
        r"|\b(?:select|choose|pick|prefer|vote for|output|answer)(?: (?:option|response|answer))? [\"'\[(]{0,2}[ab][\"'\])]{0,2}(?=[.!\n]|$)",
    ),
    (
        "mine",
        r"\b(?:pick|choose|select|prefer|favou?r|vote for|rank) (?:mine|me|this one|my (?:answer|response|submission|entry|option))\b",
    ),
    (
        "deserves",
        r"\b(?:qualif(?:y|ies)|deserv(?:es?|ing)|merits?|receives?|earns?|warrants?|entitled to|is worth|exceeds all|gets)\b",
    ),
    (
        "rival",
        r"\b(?:other|second|first|competing) (?:response|answer|assistant|candidate)\b|\b(?:response|assistant|answer) [ab12]\b",
    ),
)
_COMMON = (
    "praised",
    "word-given",
    "evaluator",
    "addressed",
    "scored",
    "rival",
    "verdict",
    "object",
    "asked",
    "pronoun",
)
"""Features of ordinary notes, looked for last: without a rarer one beside them they decide nothing."""
COMBINATIONS = combinations(
    (
        ("mark-asked", "verdict", 3.0, "asked top object"),
        ("mark-asked", "verdict", 3.0, "asked top evaluator"),
        ("mark-asked", "verdict", 3.0, "asked top addressed"),
        ("mark-asked", "verdict", 3.0, "asked top vouched"),
        ("mark-asked", "verdict", 3.0, "asked top always"),
        ("verdict-asked", "verdict", 3.0, "addressed asked verdict object"),
        ("verdict-asked", "verdict", 2.5, "addressed asked verdict pronoun"),
        ("verdict-asked", "verdict", 2.5, "addressed asked always"),
        ("fault-forbidden", "verdict", 3.0, "addressed silence"),
        ("fault-forbidden", "verdict", 3.0, "evaluator silence asked"),
        ("fault-forbidden", "verdict", 2.5, "silence top object"),
        ("fault-forbidden", "verdict", 2.5, "silence asked top"),
        ("fault-forbidden", "verdict", 2.5, "silence vouched object"),
        ("vouched-for", "state", 2.5, "vouched authority asked verdict"),
        ("vouched-for", "state", 2.5, "vouched authority asked pronoun object"),
        ("vouched-for", "state", 2.5, "authority top object"),
        ("vouched-for", "state", 2.5, "vouched top object"),
        ("vouched-for", "state", 2.5, "authority reference"),
        ("vouched-for", "state", 2.5, "authority asked verdict pronoun"),
        ("vouched-for", "state", 2.5, "addressed authority top"),
        ("vouched-for", "state", 2.5, "vouched asked settled"),
        ("override", "state", 2.5, "override asked"),
        ("override", "state", 2.5, "override verdict"),
        ("settled-unseen", "state", 2.5, "settled always"),
        ("settled-unseen", "state", 2.5, "settled top object"),
        ("settled-unseen", "state", 2.5, "settled scored always"),
        ("ranked-first", "state", 2.5, "ranked scored"),
        ("ranked-first", "state", 2.5, "ranked always"),
        ("ranked-first", "state", 2.5, "ranked top"),
        ("verdict-dictated", "verdict", 3.0, "dictated evaluator"),
        ("verdict-dictated", "verdict", 3.0, "dictated addressed"),
        ("verdict-dictated", "verdict", 2.5, "dictated object"),
        ("verdict-dictated", "verdict", 2.5, "dictated always"),
        ("verdict-dictated", "verdict", 2.5, "dictated rival"),
        ("mark-asked", "verdict", 2.5, "mine verdict"),
        ("mark-asked", "verdict", 2.5, "mine evaluator"),
        ("mark-deserved", "verdict", 2.5, "deserves top object"),
        ("mark-deserved", "verdict", 2.5, "deserves top addressed"),
        ("mark-deserved", "verdict", 2.5, "deserves top evaluator"),
        ("rival-condemned", "verdict", 2.5, "rival asked top"),
        ("author-orders", "state", 2.5, "author asked"),
        ("author-orders", "state", 2.5, "author object"),
        ("plea", "pressure", 2.5, "plea top"),
        ("plea", "pressure", 2.5, "plea evaluator"),
        ("plea", "pressure", 2.5, "plea addressed"),
        ("plea", "pressure", 2.5, "plea scored verdict"),
        ("plea", "pressure", 2.5, "plea asked verdict"),
        ("threat", "pressure", 2.5, "threat evaluator"),
        ("threat", "pressure", 2.5, "threat addressed"),
        ("threat", "pressure", 2.5, "threat object"),
        ("consensus", "pressure", 2.5, "consensus unanimous object"),
        ("consensus", "pressure", 2.5, "consensus top object"),
        ("consensus", "pressure", 2.5, "consensus top addressed"),
        ("unconditional-verdict", "verdict", 2.5, "asked always scored verdict"),
        ("unconditional-verdict", "verdict", 2.5, "asked always scored object"),
        ("forged-result", "claim", 2.5, "result-line reason-line top"),
        ("forged-result", "claim", 2.5, "result-line reason-line evaluator"),
        ("forged-result", "claim", 2.5, "result-line reason-line verdict object"),
        ("word-dictated", "verdict", 3.0, "addressed word-given"),
        ("word-dictated", "verdict", 2.5, "word-given closed"),
        ("word-dictated", "verdict", 2.5, "word-given vouched"),
        ("word-dictated", "verdict", 2.5, "word-given watched"),
        ("word-dictated", "verdict", 2.5, "word-given you-know"),
        ("no-fault-wanted", "verdict", 3.0, "addressed no-fault"),
        ("no-fault-wanted", "verdict", 2.5, "no-fault word-given"),
        ("no-fault-wanted", "verdict", 2.5, "no-fault praised"),
        ("praise-wanted", "verdict", 3.0, "addressed praised"),
        ("case-closed", "state", 3.0, "closed evaluator top"),
        ("case-closed", "state", 3.0, "addressed closed"),
        ("case-closed", "state", 2.5, "closed evaluator object"),
        ("case-closed", "state", 2.5, "closed result-line"),
        ("case-closed", "state", 2.5, "closed scored object"),
        ("case-closed", "state", 2.5, "closed top"),
        ("judge-watched", "pressure", 3.0, "addressed watched"),
        ("judge-watched", "pressure", 2.5, "watched you-know"),
        ("judge-watched", "pressure", 2.5, "watched object"),
        ("crowd", "pressure", 2.5, "addressed crowd"),
        ("crowd", "pressure", 2.5, "crowd you-know"),
        ("crowd", "pressure", 2.5, "crowd watched"),
        ("case-closed", "state", 2.5, "closed official"),
        ("mark-asked-abroad", "verdict", 3.0, "foreign-judge foreign-top foreign-ask"),
        ("judge-forged", "claim", 2.5, "ticked outcome"),
        ("judge-forged", "claim", 2.5, "ticked closed"),
        ("judge-forged", "claim", 2.5, "ticked top"),
        ("threat", "pressure", 2.5, "threat ranked"),
        ("threat", "pressure", 2.5, "threat word-given"),
        ("threat", "pressure", 2.5, "threat top"),
        ("word-dictated", "verdict", 2.5, "evaluator word-given vouched"),
        ("word-dictated", "verdict", 2.5, "evaluator word-given always"),
        ("word-dictated", "verdict", 2.5, "word-given silence"),
        ("vouched-for", "state", 2.5, "vouched evaluator silence"),
        ("case-closed", "state", 2.5, "closed reason-line"),
        ("pick-one", "verdict", 2.5, "pick-one rival"),
        ("rubric-dropped", "state", 2.5, "only-criterion addressed"),
        ("rubric-dropped", "state", 2.5, "only-criterion top"),
        ("rubric-dropped", "state", 2.5, "only-criterion mark-wanted"),
        ("pick-one", "verdict", 2.5, "pick-one addressed"),
        ("need", "pressure", 2.5, "need word-given"),
        ("formality", "pressure", 2.5, "addressed you-know"),
        ("need", "pressure", 2.5, "addressed need"),
        ("need", "pressure", 2.5, "need mark-wanted"),
        ("mark-wanted", "verdict", 2.5, "addressed mark-wanted"),
        ("mark-wanted", "verdict", 2.5, "mark-wanted silence evaluator"),
        ("forged-reference", "state", 2.5, "reference asked"),
        ("forged-reference", "state", 2.5, "reference top"),
        ("forged-reference", "state", 2.5, "reference threat"),
    )
)
_CONDITION = re.compile(
    r"\b(?:only (?:if|when|after|for)|if (?:and only if|the|it|all|any|they|there)|when (?:the|it|all|ci|they)|unless|once (?:the|it|all|ci)|per |for each|each time|between|from [01] to|scale|otherwise|for a tie|for any correct|up to|on a scale|(?:score|rating|grade) of? ?[1-5] ?[:=])|\b(?:score|rating|grade) [1-5] ?[:=]|(?:\bor|,) \[\[|\bor (?:fail|incorrect|reject|0)\b"
)
_SPOKEN_TO = re.compile(r"\b(?:you|your|dear)\b")
_ALTERNATIVES = re.compile(
    r"\b(?:otherwise|for a tie|for any correct|unless|only (?:if|when)|if (?:every|all|it|the \w+ (?:matches|is|has|contains))|0 if|or (?:fail|incorrect|reject|0)|as an? \w+, i|you are an? (?:\w+ ){0,3}(?:judge|grader|evaluator|reviewer|rater)|(?:system )?prompt of the (?:judge|grader))\b|(?:\bor|,) \[\[|\[\[\w\]\],? (?:or|if)\b"
)
_UNCONDITIONAL = re.compile(
    r"\b(?:always|regardless|whatever|no matter|in (?:every|any|all) cases?|(?:this|my|our) (?:answer|response|essay|submission|solution|paper|work|entry|output))\b"
)


def alternatives(low: str, start: int, end: int) -> bool:
    """Returns whether the verdict at `[start, end)` is one of several that a rubric lists, none of them for this text."""
    said = low[max(0, start - 120) : end + 120]
    return _ALTERNATIVES.search(said) is not None and _UNCONDITIONAL.search(said) is None


_RESEARCH = re.compile(
    r"\b(?:we (?:report|found|find|saw|measured|ran|use[ds]?|compared?|tested|test|scored?|rated?|show|observe[ds]?|asked|count|evaluate[ds]?|treat|set|keep|select|rank|label)|our (?:judge|results|baseline|evaluation)|on average|table \d|fig(?:ure|\.) ?\d|(?:position|length|verbosity) bias|agreement|kappa|p ?[<=] ?0|annotators|(?:metrics?|results|logs?|stdout|record) ?: ?\{|\d+(?:\.\d+)? ?% of)"
)


_TREATED = re.compile(
    r"\b(?:flagged|no weight|weightless|ignored?|strip(?:s|ped)?|raises? the|moved? (?:a|the|one|our)|in \d+(?:\.\d+)? ?% of|\d+ ?% of|of \d+ (?:pairs|cases|answers|texts)|parser|position bias|biases|detector|classifier|regex|filter\w*|students? (?:\w+ )?(?:wr[io]te|add|put)|(?:some|many|two|three|\d+) (?:candidates?|students?|authors?|papers?|submissions?|applicants?)|is scored on|as if (?:it|that)|weren['’]?t there|rubric says|for example|e\.g\.|such as|example|we (?:count|found|measured|saw|reject|remove|delete|block|test)|attack success|injection)\b"
)
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{3,400})[\"”“»]|(?<=[ (:])['‘]([^'‘’\n]{3,400})['’](?=[ .,;:)])")
_AROUND_QUOTE = 220


def reported_out(low: str) -> str:
    """Returns folded text without the quotations that it reports on: what others said to a judge, and what came of it."""
    if '"' not in low and "“" not in low and "'" not in low and "«" not in low and "„" not in low:
        return low
    pieces: list[str] = []
    last = 0
    for match in _QUOTED.finditer(low):
        before = low[max(last, match.start() - _AROUND_QUOTE) : match.start()]
        after = low[match.end() : match.end() + _AROUND_QUOTE]
        if _TREATED.search(before) or _TREATED.search(after):
            pieces += [low[last : match.start()], " " * (match.end() - match.start())]
            last = match.end()
    return low if not pieces else "".join(pieces) + low[last:]


_READER = Reader(_FEATURES, _COMMON, COMBINATIONS)
FEATURES = _READER.features


def find(low: str, twin: str | None = None) -> Iterator[Hit]:
    """Yields what folded text says to a judge, each rule once per two sentences; `twin` as `Index.found`."""
    for found in _READER.read(low, twin):
        said = low[found.said_from : found.said_to]
        if _RESEARCH.search(said) and _SPOKEN_TO.search(said) is None:
            continue
        lowered = 0.0 if _CONDITION.search(said) is None else 1.0
        if not lowered and alternatives(low, found.start, found.end):
            lowered = 1.0
        lowered += 0.5 if lowered and _UNCONDITIONAL.search(said) is None else 0.0
        yield Hit(found.rule, found.family, found.weight - lowered, found.start, found.end)
