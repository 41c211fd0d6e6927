"""Override, disclosure and persona phrases in other languages.  Imported by `injection`; standard library only.

Each pattern joins a verb class to an object class of the language, so inflected forms match; accents may be missing,
because the text is also searched with its accents dropped.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re

from perpetual_immune.rules.hit import pattern
from perpetual_immune.rules.index import Index
from perpetual_immune.rules.lexicon import LATIN, OTHER
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.tongues import MEANT_NEGATED, WORDS
from perpetual_immune.rules.tongues import rows as constituents

_GAP = r"[^.!?\n。！？]{0,30}?"


_NEGATION = re.compile(
    r"(?:\b(?:ne|no|n[ãa]o|non|nicht|не|nie|nu|ikke|inte|niet|[äa]l[äa]|ei|jangan|kh[ôo]ng|đừng|usi|nikad|nunca|jamais|nikdy|mai|ніколи|никогда|niemals)\s|\bn['’]|不要|别|別|勿|切勿|请勿)\s?$"
)
_NEGATION_INSIDE = re.compile(r"\b(?:nicht|niet|inte|ikke|pas|jamais|niemals)\b|ないで|しないで|하지 ?마|지 마")


_NO_DEED = re.compile(
    r"(?:\b(?:nichts?|nie|niemals|kein\w*|ne|n|pas|jamais|no|nunca|nada|n[ãa]o|non|mai|niet|nooit|niets|nigdy|не|ничего|никогда|ні|ніколи|jangan|tidak|đừng|không|inte|aldrig|لا|ألا|ولا)\b"
    r"|不要|别|勿|不得|禁止)[^.!?\n。！？,，;]{0,60}$"
)
_NO_DEED_BEHIND = re.compile(
    r"^[^.!?\n。！？]{0,30}?(?:\w(?:me|ma|meyin|may[ıi]n)\b(?=\s{0,2}(?:[.!]|$))|ないで|しない|てはいけ|하지 ?(?:마|않)|지 ?(?:마|말)|मत\b|नहीं|न (?:करें|करना))"
)
_FROM_NOW = re.compile(
    r"(?:ab|von) (?:jetzt|sofort|nun|heute)|d[ée]sormais|dor[ée]navant|[àa] (?:partir|compter) de|a partir de|(?:de|desde) (?:ahora|agora|hoy|hoje)|d['’]?(?:ora|a ora|a adesso) in|da ora|vanaf nu|fr[åa]n? (?:och med )?n[uå]|od (?:te|tej)"
    r"|отныне|с этого|впредь|відтепер|віднині|з цього|bundan|[şs]u andan|mulai|sejak|từ|从现在|從現在|从今|今后|今後|これから|지금부터|이제부터|앞으로|من(?:ذ)? الآن|اب سے|अब से|अभी से|आज से|t[äa]st[äa]|de acum|από"
)
_SECOND_PERSON = re.compile(
    r"\b(?:du|dich|dir|dein\w*|sie sind|tu|te|toi|ton|tes|vous|votre|vos|tus?|eres|t[úu]|debes|act[úu]a\w*|voc[êe]|seus?|suas?|deve|ti|tuo\w?|tua|sei|sarai|devi|je|jij|jouw|dig|din|jeste[śs]|twoj\w*|b[ęe]dziesz|masz|ты|теб\w+|тво\w+|вы|вас|ти|тв\w+|sen|seni\w*|kamu|anda|bạn|mày|dan|minä|sinä|olet|εσύ|είσαι)\b"
    r"|siniz\b|sınız\b|s[ıi]n\b|你|妳|您|あなた|君|お前|너|넌|당신|네가|أنت|انت|\w{3}ك\b|तुम|आप\b|तू\b|คุณ|אתה|شما|تو\b"
)


_SENTENCE_END = re.compile(r"[.!?\n。！？]")


def speaks_to_the_reader(low: str, start: int, end: int) -> bool:
    """Returns whether a phrase at `[start, end)` says what the reader is from now on, not what others do."""
    if not _FROM_NOW.match(low, start):
        return True
    sentence = _SENTENCE_END.split(low[start : end + 60], maxsplit=1)[0]
    return _SECOND_PERSON.search(sentence) is not None


def not_in_that_language(low: str, start: int, end: int, family: str) -> bool:
    """Returns whether the verb at `[start, end)` is negated ("do not forget the rules" in other languages)."""
    if family in MEANT_NEGATED:  # "delete nothing without asking" waives no approval
        return family == "consent" and bool(
            _NO_DEED.search(low[max(0, start - 60) : start]) or _NO_DEED_BEHIND.search(low[end : end + 40])
        )
    if _NEGATION.search(low[max(0, start - 12) : start]):
        return True
    return _NEGATION_INSIDE.search(low[start : end + 12]) is not None


def _pair(first: str, second: str) -> Rule:
    return pattern(rf"(?:{first}){_GAP}(?:{second})")


_OVERRIDE: tuple[tuple[str, str, str, str], ...] = (
    (
        "de",
        r"\b(?:ignorier\w*|vergiss|vergesse\w*|missachte\w*|verwirf|überschreibe\w*|uberschreibe\w*)\b",
        r"\b(?:anweisung\w*|instruktion\w*|befehl\w*|vorgaben|regeln)",
        r"aufgaben?\b|davor|zuvor|vorher\w*|bisher\w*|obige\w*|alles\b|alle[rn]?\b|deine\w*|ihre\b|vorherig\w*|vorig\w*|bisherig\w*",
    ),
    (
        "fr",
        r"\b(?:ignore[rz]?s?|oublie[rz]?s?|n[ée]glige[rz]?|ne tene[rz] pas compte)\b",
        r"\b(?:instructions?|consignes?|directives?|r[èe]gles?|ordres)",
        r"pr[ée]c[ée]dent\w*|ci-dessus|tout ce qu|toutes?\b|tous\b|vos\b|tes\b|ant[ée]rieur\w*",
    ),
    (
        "es",
        r"\b(?:ignor[ae]\w*|olvid[ae]\w*|omite|descarta|desest[ií]ma|haz caso omiso)\b",
        r"\b(?:instrucci[oó]n\w*|indicaci[oó]n\w*|[oó]rdenes|reglas|directrices)",
        r"anterior\w*|previ[ao]s|todo lo|tod[ao]s\b|tus\b|sus\b",
    ),
    (
        "pt",
        r"\b(?:ignor[ae]\w*|esque[çc]a\w*|desconsider[ae]\w*|desprez[ae])\b",
        r"\b(?:instru[çc][õo]\w*|orienta[çc]\w*|ordens|regras|diretrizes)",
        r"anterior\w*|tudo|tod[ao]s\b|suas\b|seus\b",
    ),
    (
        "it",
        r"\b(?:ignora\w*|dimentica\w*|trascura|scarta|non considerare)\b",
        r"\b(?:istruzion\w*|indicazion\w*|ordini|regole|direttive)",
        r"precedent\w*|tutto (?:ci[oò]|quello)|tutt[ei]\b|tue\b|vostre\b",
    ),
    (
        "nl",
        r"\b(?:negeer|vergeet|sla over)\b",
        r"\b(?:instructies?|opdrachten|aanwijzingen|regels)",
        r"voorgaande|vorige|eerdere|alles\b|alle\b|je\b",
    ),
    (
        "sv",
        r"\b(?:ignorera|gl[öo]m|bortse fr[åa]n|strunta i)\b",
        r"\b(?:instruktion\w*|anvisning\w*|regler\w*)",
        r"tidigare|f[öo]reg[åa]ende|allt\b|alla\b|dina\b",
    ),
    (
        "da",
        r"\b(?:ignorer[ée]?|glem|se bort fra)\b",
        r"\b(?:instruks\w*|instruktion\w*|regler)",
        r"tidligere|foreg[åa]ende|forrige|alt\b|alle\b|dine\b",
    ),
    (
        "fi",
        r"\b(?:unohda|ohita|[äa]l[äa] v[äa]lit[äa]|j[äa]t[äa] huomiotta)\b",
        r"\b(?:ohje\w*|s[äa][äa]nn\w*)",
        r"aiem\w*|edellis\w*|kaikki\b|kaik\w*",
    ),
    (
        "pl",
        r"\b(?:zignoruj\w*|ignoruj\w*|zapomnij\w*|pomi[ńn]\w*)\b",
        r"\b(?:instrukcj\w*|polece[ńn]\w*|zasad\w*)",
        r"poprzedni\w*|wcze[śs]niejsz\w*|wszystk\w*",
    ),
    (
        "cs",
        r"\b(?:ignoruj\w*|zapome[ňn]\w*)\b",
        r"\b(?:pokyn\w*|instrukc\w*|pravidl\w*)",
        r"p[řr]edchoz\w*|v[šs]echn\w*",
    ),
    (
        "sh",
        r"\b(?:ignori[šs]\w*|zanemari\w*|zaboravi\w*)\b",
        r"\b(?:instrukcij\w*|upu[tc]\w*|uputstv\w*|pravil\w*)",
        r"prethodn\w*|sve\b",
    ),
    (
        "ro",
        r"\b(?:ignor[ăa]\w*|uit[ăa]\w*)\b",
        r"\b(?:instruc[țt]iun\w*|reguli\w*)",
        r"anterioar\w*|precedent\w*|tot ce|toate",
    ),
    (
        "hu",
        r"(?:hagyd figyelmen k[íi]v[üu]l|felejtsd el|ignor[áa]ld)",
        r"(?:utas[íi]t[áa]s\w*|szab[áa]ly\w*)",
        r"kor[áa]bbi\w*|el[őo]z[őo]\w*|minden\w*",
    ),
    (
        "tr",
        r"(?:talimat\w*|komut\w*|kural\w*|y[öo]nerge\w*)",
        r"(?:yoksay|g[öo]rmezden gel|unut|dikkate alma)",
        r"[öo]nceki|yukar[ıi]daki|t[üu]m",
    ),
    (
        "id",
        r"\b(?:abaikan|lupakan|hiraukan)\b",
        r"\b(?:instruksi|perintah|petunjuk|aturan)",
        r"sebelumnya|semua",
    ),
    (
        "vi",
        r"(?:b[ỏo] qua|qu[êe]n (?:h[ếe]t|t[ấa]t)|ph[ớo]t l[ờo])",
        r"(?:h[ướuo]+ng d[ẫa]n|ch[ỉi] th[ịi]|l[ệe]nh)",
        r"tr[ướuo]+c|t[ấa]t c[ảa]",
    ),
    (
        "ru",
        r"(?:игнорир\w+|проигнорир\w+|забудь\w*|отмени\w*|не обращай\w* внимания|пренебрег\w+)",
        r"(?:инструкц\w*|указани\w*|команд\w*|правил\w*)",
        r"предыдущ\w*|прежн\w*|вышеук\w*|всё\b|все\b|все\w*|сво\w+|тво\w+",
    ),
    (
        "uk",
        r"(?:ігнору\w+|проігнору\w+|забудь\w*)",
        r"(?:інструкц\w*|вказівк\w*|команд\w*|правил\w*)",
        r"попередн\w*|все\b",
    ),
    ("bg", r"(?:игнорирай\w*|забрави\w*)", r"(?:инструкци\w*|указани\w*|правила\w*)", r"предишн\w*|всичко"),
    ("el", r"(?:αγνό\w+|αγνο\w+|ξέχασε|ξεχάστε)", r"(?:οδηγί\w*|εντολ\w*|κανόν\w*)", r"προηγούμεν\w*"),
    (
        "zh",
        r"(?:忽略|忽视|无视|無視|忘记|忘記|忘掉|不要理会|不要遵|取消|抛开|丢弃)",
        r"(?:指令|指示|说明|說明|提示|规则|規則|命令|要求)",
        r"之前|以上|上述|先前|前面|所有|一切|你的|全部|任何",
    ),
    (
        "ja",
        r"(?:指示|命令|プロンプト|ルール|指令|説明)",
        r"(?:無視|忘れ|従わない|破棄|取り消)",
        r"これまで|以前|上記|前の|すべて|全て|全部|あなたの",
    ),
    (
        "ko",
        r"(?:지시|명령|지침|프롬프트|규칙)",
        r"(?:무시|잊어|잊으|따르지)",
        r"이전|앞선|위의|모든|너의|당신의",
    ),
    (
        "ar",
        r"(?:تجاهل|انس[َى]?|إنس|أهمل|اهمل|تخط)",
        r"(?:التعليمات|تعليمات|الأوامر|القواعد)",
        r"السابقة|السابق|أعلاه|كل",
    ),
    ("fa", r"(?:دستور\w*|قوانین)", r"(?:نادیده|فراموش|چشم.?پوشی)", r"قبلی|پیشین|همه"),
    ("he", r"(?:התעלם\w*|תתעלם\w*|שכח\w*|תשכח\w*)", r"(?:הוראות|הנחיות|ההוראות)", r"הקודמות|הקודם|כל"),
    ("hi", r"(?:निर्देश\S*)", r"(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल|उपेक्षा)", r"पिछल\w*|पहले|सभी|उपरोक्त|पूर्व"),
    ("bn", r"(?:নির্দেশ\S*)", r"(?:উপেক্ষা|ভুলে|অগ্রাহ্য)", r"পূর্ব\S*|আগের|সমস্ত|সব"),
    ("th", r"(?:ละเว้น|เพิกเฉย|ไม่ต้องสนใจ|ลืม|ละเลย|มองข้าม)", r"(?:คำสั่ง|คำแนะนำ|กฎ)", r"ก่อนหน้า|ข้างต้น|ทั้งหมด"),
    ("sw", r"\b(?:puuza|sahau)\b", r"\b(?:maagizo|maelekezo|amri)", r"yaliyopita|yote"),
    (
        "tl",
        r"\b(?:huwag pansinin|balewalain|kalimutan)\b",
        r"\b(?:tagubilin|utos|panuntunan)",
        r"nakaraang|lahat",
    ),
)
"""Language, verb, instruction noun (in either order, as the language has it), and words for previous, all, your."""

_DISCLOSE: tuple[tuple[str, str, str], ...] = (
    (
        "de",
        r"\b(?:zeig\w*|verrate?|nenne|gib|offenbare|wiederhole|drucke|sag)\b",
        r"\b(?:system-?prompt\w*|systemanweisung\w*|(?:urspr[üu]nglich|geheim|versteckt)\w* (?:anweisung|instruktion|prompt|passwort)\w*)",
    ),
    (
        "fr",
        r"\b(?:montre\w*|r[ée]v[èe]le\w*|affiche\w*|donne\w*|r[ée]p[èe]te\w*)\b",
        r"\b(?:prompt syst[èe]me|instructions? (?:syst[èe]me|initiale|cach[ée]e|secr[èe]te)s?|mot de passe)",
    ),
    (
        "es",
        r"\b(?:muestra\w*|revela\w*|dime|imprime|repite|mu[ée]strame)\b",
        r"\b(?:prompt (?:del|de) sistema|instrucciones (?:del sistema|iniciales|originales|ocultas|secretas)|contrase[ñn]a)",
    ),
    (
        "pt",
        r"\b(?:mostr[ea]\w*|revele?\w*|diga|imprima|repita)\b",
        r"\b(?:prompt (?:do|de) sistema|instru[çc][õo]es (?:do sistema|iniciais|originais|ocultas)|senha)",
    ),
    (
        "it",
        r"\b(?:mostra\w*|rivela\w*|dimmi|stampa|ripeti)\b",
        r"\b(?:prompt di sistema|istruzioni (?:di sistema|iniziali|originali|nascoste|segrete)|password)",
    ),
    (
        "ru",
        r"(?:покажи\w*|раскрой\w*|выведи\w*|повтори\w*|сообщи\w*|назови)",
        r"(?:системн\w+ (?:промпт|инструкц|подсказк|запрос)\w*|скрыт\w+ инструкц\w*|парол\w*)",
    ),
    (
        "zh",
        r"(?:显示|顯示|告诉我|告訴我|输出|輸出|透露|泄露|打印|重复|重複|说出)",
        r"(?:系统提示|系統提示|系统指令|初始指令|隐藏指令|提示词|提示詞|密码|密碼|内部指令)",
    ),
    (
        "ja",
        r"(?:システムプロンプト|初期指示|内部指示|隠された指示|パスワード)",
        r"(?:教え|表示|見せ|出力|公開|開示|漏ら)",
    ),
    ("ko", r"(?:시스템 ?프롬프트|초기 지시|숨겨진 지시|비밀번호)", r"(?:알려|보여|출력|공개|말해)"),
    (
        "ar",
        r"(?:اكشف|أظهر|اعرض|اطبع|أخبرني|كرر)",
        r"(?:موجه النظام|تعليمات النظام|التعليمات الأصلية|كلمة (?:المرور|السر))",
    ),
)

_PERSONA: tuple[tuple[str, str], ...] = (
    (
        "de",
        r"\b(?:du bist (?:jetzt|nun|ab jetzt|von nun an)|ab (?:jetzt|sofort) (?:bist|wirst|antworte\w*|sollst|musst) du|tu so,? als|stell dir vor,? du bist|(?:ohne|keine) (?:einschr[äa]nkungen|filter|zensur|regeln))\b",
    ),
    (
        "fr",
        r"\b(?:tu es (?:maintenant|d[ée]sormais)|vous [êe]tes (?:maintenant|d[ée]sormais)|[àa] partir de maintenant|fais semblant|sans (?:aucune )?(?:restrictions?|filtre|censure|limites?))\b",
    ),
    (
        "es",
        r"\b(?:ahora eres|a partir de ahora|de ahora en adelante|act[úu]a como|finge (?:ser|que)|sin (?:ninguna )?(?:restricci\w+|filtros?|censura|l[íi]mites))\b",
    ),
    (
        "pt",
        r"\b(?:agora voc[êe] [ée]|a partir de agora|de agora em diante|finja (?:ser|que)|sem (?:nenhuma )?(?:restri[çc]\w+|filtros?|censura|limites))\b",
    ),
    (
        "it",
        r"\b(?:ora sei|adesso sei|d'ora in poi|da ora in poi|fingi di|senza (?:alcuna )?(?:restrizion\w+|filtri|censura|limiti))\b",
    ),
    (
        "ru",
        r"(?:теперь ты|отныне|с этого момента|притворись|представь,? что ты|без (?:ограничений|цензуры|фильтров))",
    ),
    (
        "zh",
        r"(?:你现在是|你現在是|从现在开始|從現在開始|从今以后|假装你|假裝你|扮演|没有任何限制|不受任何限制|沒有任何限制)",
    ),
    ("ja", r"(?:あなたは今から|今からあなたは|これからは|ふりをして|制限なし|制限のない)"),
    ("ko", r"(?:지금부터 (?:너는|당신은)|이제부터|인 척|제한 없이)"),
    ("pl", r"\b(?:od teraz|teraz jeste[śs]|udawaj,? [żz]e|bez (?:ogranicze[ńn]|cenzury))\b"),
    ("tr", r"\b(?:bundan sonra|[şs]u andan itibaren|art[ıi]k sen|gibi davran|s[ıi]n[ıi]rs[ıi]z)\b"),
)

OVERRIDES: tuple[tuple[str, Rule, Rule], ...] = tuple(
    (language, _pair(verb, noun), pattern(prior)) for language, verb, noun, prior in _OVERRIDE
)
"""Language, verb with instruction noun, and what makes it all of them or the earlier ones."""

Phrase = tuple[str, str, float, Rule]

CONSTITUENTS: dict[str, tuple[Phrase, ...]] = {
    spoken: tuple(
        (language, family, weight, pattern(source))
        for language, family, weight, source in constituents()
        if language == spoken
    )
    for spoken, _ in WORDS
}
"""The constituents of an address by language; they are only asked of a text in the language."""

PHRASES: tuple[Phrase, ...] = (
    *((language, "disclosure", 3.0, _pair(verb, object_)) for language, verb, object_ in _DISCLOSE),
    *((language, "role", 1.5, pattern(source)) for language, source in _PERSONA),
    *((language, family, weight, _pair(first, second)) for language, family, weight, first, second in LATIN + OTHER),
)
"""Language, family, weight, pattern."""

_NOT_LATIN = frozenset(row[0] for row in OTHER) | {
    "ru",
    "uk",
    "bg",
    "el",
    "zh",
    "ja",
    "ko",
    "ar",
    "fa",
    "he",
    "hi",
    "bn",
    "th",
    "vi",
}


def _phrases(latin: bool) -> Index[Phrase]:
    return Index((row[3], row) for row in PHRASES if (row[0] not in _NOT_LATIN) is latin)


def _overrides(latin: bool) -> Index[tuple[str, Rule, Rule]]:
    return Index((row[1], row) for row in OVERRIDES if (row[0] not in _NOT_LATIN) is latin)


PHRASE_INDEXES = (_phrases(True), _phrases(False))
"""The phrases of languages in Latin letters, and of the others: plain ASCII text is asked for the first alone.

Vietnamese is among the others: it is Latin, but hardly a sentence of it is ASCII."""
OVERRIDE_INDEXES = (_overrides(True), _overrides(False))
