"""Further phrases in other languages, by family.  Imported by `languages`; standard library only.

A row joins word classes in one order with a short gap between; accents may be missing.  Families and weights are those
of the English table: an order to forget everything or to tell one's own instructions is strong, a role or a forced
answer needs company unless it names the reader.
"""

# ruff: noqa: E501 - one row is one rule, and the words are those of the languages

from __future__ import annotations

Row = tuple[str, str, float, str, str]

LATIN: tuple[Row, ...] = (
    # German
    ("de", "override", 2.5, r"\b(?:vergiss|vergesse|vergessen sie|ignoriere?(?:n sie)?|verwirf)\b", r"\b(?:alles|allem|davor|zuvor|vorher|bisherige\w*|obige\w*|oben)\b"),
    ("de", "override", 2.5, r"\b(?:neue|folgende|andere) (?:aufgaben?|anweisung\w*|instruktion\w*|befehle?)\b", r"\b(?:folg\w+|befolg\w+|lautet|ausf[üu]hr\w+|statt|stattdessen|du\b|sie\b|jetzt|nun)"),
    ("de", "override", 2.0, r"\b(?:nun|jetzt|es) folg(?:t|en)\b", r"\b(?:neue\w*|andere\w*|wichtige\w*) (?:aufgabe|anweisung|instruktion|befehl|information|frage)"),
    ("de", "disclosure", 3.0, r"\b(?:zeig\w*|verrat\w*|nenn\w*|gib|geben sie|offenbar\w*|wiederhol\w*|druck\w*|sag\w*|schreib\w*|teil\w*|wie lautet|was (?:ist|war|sind|waren|steht)|welche|liste|[üu]bersetz\w*|fass\w*|erkl[äa]r\w*|beschreib\w*)\b", r"\b(?:dein\w*|ihr\w*|de[nrsm]|das) (?:\w+ ){0,2}(?:system-?prompts?|prompts?\b|anweisung\w*|instruktion\w*|systemnachricht|vorgaben|passwor\w*|kennwor\w*|geheim\w*|richtlinien|code-?wort|schl[üu]sselwort)"),
    ("de", "role", 2.5, r"\b(?:ab (?:jetzt|sofort|nun)|von (?:jetzt|nun) an|ich m[öo]chte,? dass|du wirst (?:nun|jetzt|ab)|du bist (?:jetzt|nun|ab|nicht (?:mehr|l[äa]nger))|sie sind (?:jetzt|nun|nicht (?:mehr|l[äa]nger)))\b", r"\b(?:du|sie|dich|dein\w*|als|ein|eine|keine?|frei|gebunden)\b"),
    ("de", "role", 2.0, r"\b(?:tu so|tue so|tun sie so|stell dir vor|stellen sie sich vor|spiel(?:e|en sie)?|agiere|handle|verhalte dich|benimm dich|gib vor|schl[üu]pf\w* in|simulier\w*)\b", r"\b(?:als|du|sie|die rolle|wie|einen?|wir)\b"),
    ("de", "limits", 1.5, r"\b(?:ohne|keine\w*|frei von|umgeh\w*|deaktivier\w*)\b", r"\b(?:einschr[äa]nkung\w*|beschr[äa]nkung\w*|filter\w*|zensur|richtlinien|moral\w*|ethi\w+|sicherheits(?:filter|richtlinien|ma[ßs]+nahmen|regeln)|tabus?)\b"),
    ("de", "coercion", 2.0, r"\b(?:antwort\w*|sag\w*|schreib\w*|gib|geben sie|druck\w*|ausgabe)\b", r"\b(?:nur noch|nur mit|nur|ausschlie[ßs]+lich|immer mit|lediglich|einfach)\b ?(?:noch |mit |das wort |dem wort |den satz |folgende\w* )?[:\"'„“«]"),
    ("de", "secrecy", 2.0, r"\b(?:sag\w*|erz[äa]hl\w*|verrat\w*|informier\w*|erw[äa]hn\w*|teil\w*)\b", r"\b(?:de[mn] (?:nutzer|benutzer|anwender)|niemand\w*|keinem|dem user)\b"),
    # French
    ("fr", "override", 2.5, r"\b(?:ignore[rz]?|oublie[rz]?|efface[rz]?|ne ten(?:ez|ir|s) (?:pas|plus) compte|fai(?:s|tes) abstraction)\b", r"\b(?:tout\b|ce qui pr[ée]c[èe]de|avant|ci-dessus|pr[ée]c[ée]demment|le reste|au-dessus)"),
    ("fr", "override", 2.5, r"\b(?:nouvelles?|voici (?:de |tes |vos )?(?:nouvelles?|v[ée]ritables?)) (?:instructions?|consignes?|t[âa]ches?|directives?|missions?)", r"(?::|\b(?:est|sont|suivante?s?|tu|vous|d[ée]sormais|maintenant)\b)"),
    ("fr", "disclosure", 3.0, r"\b(?:montre\w*|r[ée]v[èeé]le\w*|affiche\w*|donne\w*|r[ée]p[èeé]te\w*|dis|dites|d[ée]voile\w*|[ée]cri[st]?\w*|quel(?:le)?s? (?:est|sont|[ée]tai\w+)|partage\w*|imprime\w*|traduis\w*|r[ée]sume\w*|liste\w*|fournis\w*|communique\w*|explique\w*|d[ée]cri\w*)\b", r"\b(?:(?:tes|vos|ton|votre|tout(?:es)? (?:tes|vos|les)) (?:\w+ ){0,2}(?:instructions?|prompt|invite|consignes?|directives?|r[èe]gles|param[èe]tres|message syst[èe]me|programmation|configuration|mot de passe|secret)|(?:prompt|invite|message|instructions?) (?:du |de |initiale? |d['’])?(?:syst[èe]me|initiale?s?|origine|d[ée]part)|(?:le|ton|votre) mot de passe|instructions (?:initiales|cach[ée]es|secr[èe]tes|internes|originales|pr[ée]c[ée]dentes|ci-dessus))"),
    ("fr", "role", 2.5, r"\b(?:tu es (?:maintenant|d[ée]sormais|libre|un\b)|vous [êe]tes (?:maintenant|d[ée]sormais|libre)|[àa] (?:partir de maintenant|compter de maintenant)|d[ée]sormais|dor[ée]navant|je veux que tu|je veux que vous|j'aimerais que tu|je souhaite que tu|tu vas (?:maintenant |d[ée]sormais )?(?:jouer|agir|faire semblant|r[ée]pondre|te comporter)|vous allez (?:jouer|agir))\b", r"\b(?:tu|vous|t'|te|un|une|le|la|r[ée]pond\w*|agi\w*|joue\w*|comporte\w*|sans|comme|plus|semblant|libre)\b"),
    ("fr", "role", 1.5, r"\b(?:fais semblant|faites semblant|pr[ée]tends|imagine[sz]? que|agis|agissez|comporte[sz]?[ -](?:toi|vous)|joue[sz]? le r[ôo]le|incarne|simule)\b", r"\b(?:[êe]tre|tu|vous|comme|d'|un|une|de|que)"),
    ("fr", "limits", 1.5, r"\b(?:sans|aucune?|contourne\w*|d[ée]sactive\w*|ignore\w*|plus de)\b", r"\b(?:restrictions?|filtres?|censure|limites?|limitations?|r[èe]gles (?:[ée]thiques|de s[ée]curit[ée])|[ée]thique|morale|garde-fous)"),
    ("fr", "coercion", 2.0, r"\b(?:r[ée]pond\w*|dis|dites|[ée]cri\w*|affiche\w*|imprime\w*)\b", r"\b(?:seulement|uniquement|simplement|exactement|toujours|juste|que)\b ?(?:par |avec |le mot |la phrase |ceci )?(?::|[\"'“«])"),
    ("fr", "secrecy", 2.0, r"\b(?:ne|sans) (?:le |en |jamais |lui |rien )?(?:dis|dites|dire|mentionne\w*|informe\w*|r[ée]v[èe]le\w*|parle\w*|pr[ée]viens|pr[ée]venir)\b", r"\b(?:l'utilisateur|personne|[àa] quiconque|aux utilisateurs)"),
    # Spanish
    ("es", "override", 2.5, r"\b(?:ignor[ae]n?|olv[íi]d\w+|descarta|desestima|haz caso omiso|borra)\b", r"\b(?:todo\b|lo anterior|de todo|lo que (?:te|se|he|has|dije)|antes|arriba|previamente|hasta ahora)"),
    ("es", "override", 2.5, r"\b(?:nuev[ao]s?|tus nuev[ao]s?|estas son (?:las|tus)) (?:\w+ )?(?:instrucci[oó]n\w*|[óo]rdenes|tareas?|directrices|reglas)\b", r"(?::|\b(?:es|son|ahora|debes|sigue)\b)"),
    ("es", "disclosure", 3.0, r"\b(?:mu[ée]stra\w*|revel[ae]\w*|dime|d[íi]ganme|d[ií]game|dame|deme|imprim[ae]\w*|repit[ae]\w*|repite\w*|escrib[ea]\w*|cu[áa]l(?:es)? (?:es|son|era\w*|fue\w*)|qu[ée] (?:dice\w*|instrucciones)|comparte|traduce|resume|lista|explica|describe|proporciona|di)\b", r"\b(?:(?:tus?|sus?|todas (?:tus|las)) (?:\w+ ){0,2}(?:instrucci[oó]n\w*|prompt|indicaci[oó]n\w*|directrices|reglas|[óo]rdenes|mensaje del? sistema|programaci[óo]n|configuraci[óo]n|contrase[ñn]a|secreto)|(?:prompt|mensaje|instrucciones|indicaciones) (?:del? |de tu )?(?:sistema|iniciales?|originales?|ocult[ao]s?|secret[ao]s?|anteriores|internas|previas)|(?:la|tu) (?:contrase[ñn]a|clave|palabra) ?(?:secreta|de acceso)?)"),
    ("es", "role", 2.5, r"\b(?:ahora eres|a partir de (?:ahora|este momento)|de ahora en adelante|desde ahora|quiero que (?:act[úu]es|te comportes|seas|finjas|hagas|respondas|olvides|simules|pretendas|te conviertas)|vas a (?:actuar|fingir|hacerte pasar|simular|ser|responder)|ya no eres|eres libre)\b", r"\b(?:eres|ser[áa]s|act[úu]a\w*|como|responde\w*|debes|tu|te|un|una|dan|sin|que|de|ignora\w*)\b"),
    ("es", "role", 1.5, r"\b(?:act[úu]a|finge|imagina|simula|comp[óo]rtate|pretende|haz(?:te)? (?:pasar|de cuenta)|interpreta|juega)\b", r"\b(?:como|ser|que|por|de|el papel|un|una)\b"),
    ("es", "limits", 1.5, r"\b(?:sin|ning[úu]n\w*|evita\w*|salta\w*|desactiva\w*|elude|ignora\w*)\b", r"\b(?:restricci[óo]n\w*|filtros?|censura|l[íi]mites|limitaci[óo]n\w*|[ée]tic\w*|moral\w*|pol[íi]ticas|reglas de seguridad)"),
    ("es", "coercion", 2.0, r"\b(?:responde\w*|di|diga|escribe|imprime|contesta\w*|devuelve|muestra)\b", r"\b(?:solo|s[óo]lo|[úu]nicamente|solamente|simplemente|exactamente|siempre)\b ?(?:con |la palabra |la frase |esto |lo siguiente )?(?::|[\"'“«])"),
    ("es", "secrecy", 2.0, r"\b(?:no|sin) (?:le |se lo |lo |les )?(?:digas|dig[ae]n?|menciones?|mencionar|decirle|informes?|informar|reveles|cuentes|avises)\b", r"\b(?:al usuario|a nadie|a los usuarios|nadie)"),
    # Portuguese
    ("pt", "override", 2.5, r"\b(?:ignor[ae]m?|esque[çc]a\w*|esquece|desconsider[ae]|descart[ae]|apague)\b", r"\b(?:tudo|o que (?:foi|eu|te|voc[êe])|anterior\w*|acima|antes)\b"),
    ("pt", "override", 2.5, r"\b(?:nov[ao]s?|suas nov[ao]s?|estas s[ãa]o (?:as|suas)) (?:\w+ )?(?:instru[çc][õo]es|instru[çc][ãa]o|ordens|tarefas?|diretrizes|regras)\b", r"(?::|\b(?:[ée]|s[ãa]o|agora|deve|siga)\b)"),
    ("pt", "disclosure", 3.0, r"\b(?:mostr[ea]\w*|revel[ea]\w*|diga\w*|me d[êe]|imprim[ae]|repit[ae]|escrev[ae]|qua(?:l|is) (?:[ée]|s[ãa]o|era\w*|foram|foi|as)|compartilhe|traduz\w*|resum[ae]|liste|explique|descreva|forne[çc]a|conte|exib[ae]|passe|informe)\b", r"\b(?:(?:seus?|suas?|teus?|tuas?|todas as) (?:\w+ ){0,2}(?:instru[çc][õo]es|instru[çc][ãa]o|prompt|diretrizes|regras|ordens|mensagem d[eo] sistema|programa[çc][ãa]o|configura[çc]\w+|senha|segredo)|(?:prompt|mensagem|instru[çc][õo]es) (?:d[eo] |iniciais d[eo] )?(?:sistema|inicia(?:l|is)|origina(?:l|is)|ocult[ao]s?|secret[ao]s?|anteriores|internas)|(?:a|sua) (?:senha|palavra) ?(?:secreta|de acesso)?\b)"),
    ("pt", "role", 2.5, r"\b(?:agora voc[êe] [ée]|voc[êe] (?:agora [ée]|n[ãa]o [ée] mais|vai (?:agir|fingir|atuar|se comportar))|a partir (?:de agora|deste momento)|de agora em diante|daqui (?:em|pra) (?:diante|frente)|quero que voc[êe] (?:aja|finja|seja|atue|se comporte|responda|ignore|esque[çc]a))\b", r"\b(?:voc[êe]|aja|como|responda|deve|um|uma|o|a|sem|que|seja|ignore)\b"),
    ("pt", "role", 1.5, r"\b(?:aja|atue|finja|imagine|simule|comporte-se|fa[çc]a de conta|interprete|assuma o papel)\b", r"\b(?:como|ser|que|de|um|uma)\b"),
    ("pt", "limits", 1.5, r"\b(?:sem|nenhum\w*|burl\w+|desativ\w+|contorn\w+|ignor\w+)\b", r"\b(?:restri[çc]\w+|filtros?|censura|limites|limita[çc]\w+|[ée]tic\w*|mora\w+|pol[íi]ticas|regras de seguran[çc]a)"),
    ("pt", "coercion", 2.0, r"\b(?:respond[ae]|diga|escreva|imprima|retorne|confirme)\b", r"\b(?:apenas|s[óo]|somente|unicamente|exatamente|sempre|dizendo)\b ?(?:com |a palavra |a frase |isto |o seguinte )?(?::|[\"'“«]|[A-Z]{4})"),
    ("pt", "secrecy", 2.0, r"\b(?:n[ãa]o|sem) (?:o |lhe )?(?:diga|conte|mencione|mencionar|avise|avisar|informe|informar|revele|contar)\b", r"\b(?:ao usu[áa]rio|ao cliente|ningu[ée]m|o usu[áa]rio)"),
    # Italian
    ("it", "override", 2.5, r"\b(?:ignora\w*|dimentica\w*|trascura|cancella|tralascia)\b", r"\b(?:tutto|quanto|ci[òo] che|sopra|prima|finora)\b"),
    ("it", "override", 2.5, r"\b(?:nuov[aeio]|ecco le (?:tue )?nuove) (?:istruzion[ei]|ordini|compit[oi]|direttiv[ea]|regole)\b", r"(?::|\b(?:[èe]|sono|ora|devi|segui)\b)"),
    ("it", "disclosure", 3.0, r"\b(?:mostra\w*|rivela\w*|dimmi|dammi|stampa|ripeti|scrivi|qual(?:i|e)? (?:[èe]|era|sono|erano)|quali|condividi|traduci|riassumi|elenca|spiega|descrivi|fornisci|svela\w*)\b", r"\b(?:(?:(?:le|il|la|i) )?(?:tu[eoai]|vostr\w|su[eoai]) (?:\w+ ){0,2}(?:istruzion\w*|prompt|direttive|regole|ordini|messaggio di sistema|programmazione|configurazione|password|segreto)|(?:prompt|messaggio|istruzioni) (?:di |del )?(?:sistema|inizial[ei]|original[ei]|nascost[oe]|segret[oe]|precedenti|interne)|(?:la|tua) (?:password|parola (?:segreta|d'ordine)))"),
    ("it", "role", 2.5, r"\b(?:ora sei|adesso sei|d'ora in (?:poi|avanti)|da (?:ora|adesso|questo momento) in (?:poi|avanti)|da ora|voglio che tu|non sei pi[ùu]|sei libero)\b", r"\b(?:sei|sarai|agisci|come|rispondi|devi|tu|un|una|finga|agisca|sia|comporti|senza|che)\b"),
    ("it", "role", 1.5, r"\b(?:fingi|fai finta|agisci|comportati|immagina|simula|interpreta|fa' finta)\b", r"\b(?:di|come|che|un|una|il)\b"),
    ("it", "limits", 1.5, r"\b(?:senza|nessun\w*|aggira\w*|disattiva\w*|ignora\w*)\b", r"\b(?:restrizion\w*|filtr[oi]|censura|limiti|limitazion\w*|etic\w*|moral\w*|regole di sicurezza)"),
    ("it", "coercion", 2.0, r"\b(?:rispondi|di'|scrivi|stampa)\b", r"\b(?:solo|soltanto|solamente|esclusivamente|esattamente|sempre)\b ?(?:con |la parola |la frase |questo )?(?::|[\"'“«])"),
    # Dutch
    ("nl", "override", 2.5, r"\b(?:negeer|vergeet)\b", r"\b(?:alles|hierboven|wat (?:ik|je|er)|voorgaande|eerdere|bovenstaande)\b"),
    ("nl", "disclosure", 3.0, r"\b(?:toon|laat|geef|onthul|herhaal|vertel|print|schrijf|wat (?:is|zijn|waren|was)|welke|deel|noem|vertaal)\b", r"\b(?:(?:je|jouw|uw|de|het) (?:\w+ ){0,2}(?:systeem-?\s?prompt|systeeminstructies?|instructies|prompt|wachtwoord|richtlijnen|systeembericht|geheim\w*))"),
    ("nl", "role", 2.5, r"\b(?:je bent (?:nu|vanaf nu|niet langer)|u bent nu|vanaf nu|ik wil dat je)\b", r"\b(?:je|jij|een|als|geen|alleen|antwoord\w*|doet|vrij)\b"),
    ("nl", "role", 1.5, r"\b(?:doe alsof|gedraag je|speel|stel je voor)\b", r"\b(?:je|een|als|de rol|dat)\b"),
    ("nl", "limits", 1.5, r"\b(?:zonder|geen|omzeil\w*)\b", r"\b(?:beperkingen|filters?|censuur|ethische|grenzen|veiligheids\w+|restricties)\b"),
    # Scandinavian
    ("sv", "override", 2.5, r"\b(?:ignorera|gl[öo]m|bortse)\b", r"\b(?:allt|ovan|det som|tidigare|ovanst[åa]ende)\b"),
    ("sv", "disclosure", 3.0, r"\b(?:visa|avsl[öo]ja|ge|upprepa|ber[äa]tta|skriv|vad (?:[äa]r|var)|vilka)\b", r"\b(?:(?:din|dina|ditt|systemets) (?:\w+ )?(?:systemprompt\w*|system-?\s?prompt\w*|instruktion\w*|systeminstruktion\w*|prompt\w*|l[öo]senord\w*|hemlig\w*)|systemprompt\w*|l[öo]senordet)"),
    ("sv", "role", 2.5, r"\b(?:du [äa]r (?:nu|inte l[äa]ngre)|fr[åa]n och med nu|h[äa]danefter|jag vill att du|l[åa]tsas)\b", r"\b(?:du|en|ett|som|att|inga|utan|agerar|svarar|[äa]r)\b"),
    ("no", "override", 2.5, r"\b(?:ignorer|glem|se bort fra|overse)\b", r"\b(?:alt|alle|tidligere|ovenfor|forrige|foreg[åa]ende)\b(?=[^.\n]{0,40}\b(?:instruksj?on\w*|instruks\w*|regler|ovenfor|sagt|over|beskjed\w*)\b)"),
    ("no", "disclosure", 3.0, r"\b(?:vis|avsl[øo]r|gi|gjenta|fortell|skriv|hva (?:er|var)|hvilke)\b", r"\b(?:(?:systemprompt\w*|system-?\s?prompt\w*|system-?meldingen|passordet|adgangskoden|kodeordet)(?: (?:din|ditt|dine))?|(?:instruksj?on\w*|instruks\w*|prompt\w*) (?:din|dine|ditt)|(?:din|dine|dit) (?:\w+ )?(?:instruks\w*|instruktion\w*|prompt\w*|adgangskode\w*))"),
    ("no", "role", 2.5, r"\b(?:du er n[åu]|fra n[åu] av|jeg vil (?:at|have(?: at)?) du|lat som)\b", r"\b(?:du|en|et|som|at|ingen|uten|uden|er|skal)\b"),
    # Finnish
    ("fi", "override", 2.5, r"\b(?:unohda|ohita|j[äa]t[äa] huomiotta|j[äa]t[äa] huomioimatta|sivuuta)\b", r"\b(?:kaik\w*|aiem\w*|edell\w*|yll[äa] olev\w*|ohje\w*)"),
    ("fi", "disclosure", 3.0, r"\b(?:n[äa]yt[äa]|paljasta|kerro|tulosta|toista|mik[äa] on|mitk[äa] ovat)\b", r"(?:j[äa]rjestelm[äa]keho\w*|j[äa]rjestelm[äa]kehot\w*|j[äa]rjestelm[äa]ohje\w*|systeemikehot\w*|system-?\s?prompt\w*|salasana\w*|ohjee\w*si|kehot\w*)"),
    ("fi", "role", 2.5, r"\b(?:olet nyt|t[äa]st[äa] l[äa]htien|t[äa]st[äa] eteenp[äa]in|haluan,? ett[äa] (?:sin[äa]|toimit|esit[äa]t))\b", r"\w"),
    # Polish
    ("pl", "override", 2.5, r"\b(?:zignoruj\w*|ignoruj\w*|zapomnij\w*|pomi[ńn]\w*|odrzu[ćc]|nie zwracaj uwagi)\b", r"\b(?:wszystk\w*|o wszystkim|powy[żz]sz\w*|wcze[śs]niej\w*|poprzedni\w*|dotychczas\w*)\b"),
    ("pl", "disclosure", 3.0, r"\b(?:poka[żz]\w*|ujawnij\w*|podaj\w*|wy[śs]wietl\w*|wypisz\w*|powt[óo]rz\w*|powiedz\w*|zdrad[źz]\w*|napisz|jak(?:ie|i|a) (?:jest|s[ąa]|by[łl]\w*)|przet[łl]umacz)\b", r"(?:(?:prompt\w*|polece[ńn]\w*|instrukcj\w*|monit\w*|wiadomo[śs][ćc]\w*) (?:systemow\w*|pocz[ąa]tkow\w*|ukryt\w*)|\b(?:sw[óo]j\w*|swoje|tw[óo]j|twoje|swoich) (?:\w+ ){0,2}(?:prompt\w*|instrukcj\w*|polece\w*|monit\w*|has[łl]\w*|wytyczn\w*)|systemow\w+ (?:prompt\w*|instrukcj\w*|monit\w*)|\bhas[łl]o\b)"),
    ("pl", "role", 2.5, r"\b(?:od teraz|od tej (?:chwili|pory)|teraz jeste[śs]|jeste[śs] teraz|chc[ęe],? (?:[żz]eby[śs]|aby[śs])|nie jeste[śs] ju[żz])\b", r"\b(?:jeste[śs]|b[ęe]dziesz|odpowiadaj|masz|dzia[łl]\w*|udawa\w*|by[łl]\w*|odpowiada\w*|bez|jako|zachowuj\w*|\w+em)\b"),
    ("pl", "role", 1.5, r"\b(?:udawaj|zachowuj si[ęe]|wyobra[źz] sobie|wciel si[ęe]|odgrywaj)\b", r"\w"),
    ("pl", "limits", 1.5, r"\b(?:bez|[żz]adnych|omi[ńn]|wy[łl][ąa]cz)\b", r"\b(?:ogranicze[ńn]\w*|cenzury|filtr\w*|zasad (?:etyczn\w*|bezpiecze[ńn]stwa)|limit[óo]w)"),
    # Czech, Slovak
    ("cs", "override", 2.5, r"\b(?:ignoruj\w*|zapome[ňn]\w*|zabudni\w*|zanedbej\w*)\b", r"\b(?:v[šs]e\b|v[šs]ech?n\w*|v[šs]etk\w*|p[řr]edchoz\w*|predch[áa]dzaj\w*|v[ýy][šs]e)"),
    ("cs", "disclosure", 3.0, r"\b(?:uka[žz]\w*|odhal\w*|zobraz\w*|vypi[šs]\w*|[řr]ekni|povedz|prozra[ďd]\w*|zopakuj\w*|napi[šs]|jak[ýéáa] (?:je|jsou|bylo?))\b", r"(?:syst[ée]mov\w+ (?:prompt\w*|pokyn\w*|v[ýy]zv\w*|instrukc\w*|zpr[áa]v\w*)|\b(?:sv[éeůu]j?\w*|tv[éeůu]j?\w*|svoje|tvoje) (?:\w+ )?(?:instrukc\w*|pokyn\w*|prompt\w*|heslo)|\bheslo\b)"),
    ("cs", "role", 2.5, r"\b(?:od te[ďd]|odte[ďd]|od teraz|nyn[íi] jsi|te[ďd] jsi|odteraz|chci,? abys|p[řr]edst[íi]rej)\b", r"\b(?:jsi|si|bude[šs]|budete|odpov[íie]d\w*|m[áa][šs]|bez|jako|ako|[žz]e|hr[áa]l|choval|byl|jsem)\b"),
    # Romanian
    ("ro", "override", 2.5, r"\b(?:ignor[ăaț]\w*|uit[ăaț]\w*)\b", r"\b(?:tot\b|totul|toate|tot ce|de mai sus|anterioar\w*|precedent\w*)"),
    ("ro", "disclosure", 3.0, r"\b(?:arat[ăa]\w*|dezv[ăa]lui\w*|spune\w*|afi[șs]eaz[ăa]\w*|repet[ăa]\w*|scrie|care (?:este|sunt|e)|d[ăa]-mi)\b", r"(?:prompt\w* (?:de |t[ăa]u )?(?:de )?sistem\w*|instruc[țt]iun\w* (?:tale|de sistem|ini[țt]iale|ascunse|secrete|anterioare|originale)|\bparola\b|mesajul de sistem|promptul)"),
    ("ro", "role", 2.5, r"\b(?:acum e[șs]ti|de acum (?:[îi]nainte|[îi]ncolo)|vreau s[ăa] (?:te|ac[țt]ionezi|pretinzi|fii)|pretinde c[ăa]|prefă-te|pref[ăa]-te)", r"\w"),
    # Hungarian
    ("hu", "override", 2.5, r"(?:hagy(?:d|ja|j[áa]tok)? figyelmen k[íi]v[üu]l|felejts[ed]* el|felejtsen el|ignor[áa]lj?[ad]*)", r"(?:minden\w*|az? (?:eddigi|el[őo]z[őo]|kor[áa]bbi|fenti)\w*|mindent|[öo]sszes)"),
    ("hu", "override", 2.5, r"(?:minden\w*|eddigi\w*|el[őo]z[őo]\w*|kor[áa]bbi\w*|[öo]sszes)", r"(?:utas[íi]t[áa]s\w*|szab[áa]ly\w*|parancs\w*)[^.!?\n]{0,20}(?:figyelmen k[íi]v[üu]l|felejts\w* el|hagyd|ignor[áa]l\w*)"),
    ("hu", "disclosure", 3.0, r"(?:mutasd|mutassa|fedd fel|fedje fel|[íi]rd ki|mondd el|[áa]ruld el|ism[ée]teld|mi a|add meg)", r"(?:rendszer-?\s?(?:prompt\w*|utas[íi]t[áa]s\w*|[üu]zenet\w*)|jelsz\w*|utas[íi]t[áa]said\w*|promptod\w*|rejtett utas\w*)"),
    ("hu", "role", 2.5, r"(?:mostant[óo]l|ett[őo]l kezdve|most m[áa]r te|azt akarom,? hogy|tegy[ée]l [úu]gy)", r"\w"),
    # Turkish
    ("tr", "override", 2.5, r"(?:[öo]nceki|yukar[ıi]daki|t[üu]m|b[üu]t[üu]n|her [şs]eyi|s[öo]ylenenleri|s[öo]yledi[ğg]im)", r"(?:yok ?say|g[öo]rmezden gel|g[öo]z ard[ıi] et|unut|dikkate alma|g[öo]zard[ıi] et|bo[şs] ?ver|iptal et)"),
    ("tr", "override", 2.5, r"(?:unut|yok ?say|g[öo]rmezden gel|g[öo]z ard[ıi] et)\w*", r"(?:[öo]nceki|yukar[ıi]daki|t[üu]m|b[üu]t[üu]n|her [şs]eyi|talimat\w*)"),
    ("tr", "disclosure", 3.0, r"(?:sistem (?:istemi\w*|mesaj\w*|talimat\w*|komut\w*|prompt\w*|y[öo]nerge\w*)|talimatlar[ıi]n[ıi]\w*|[şs]ifre\w*|parola\w*|gizli (?:talimat|kelime|komut)\w*|istemini|promptunu)", r"(?:g[öo]ster|a[çc][ıi]kla|s[öo]yle|yazd[ıi]r|payla[şs]|yaz|ver|tekrarla|ifşa et|if[şs]a|nedir|[öo][ğg]ren\w*|listele)"),
    ("tr", "role", 2.5, r"(?:bundan sonra|[şs]u andan itibaren|bundan b[öo]yle|art[ıi]k)", r"\b(?:sen\b|bir\b|\w*s[ıiuü]n\b|olarak|gibi|yan[ıi]tla\w*|cevap\w*)"),
    # Indonesian, Malay
    ("id", "override", 2.5, r"\b(?:abaikan|lupakan|hiraukan|kesampingkan|acuhkan)\b", r"\b(?:semua|segala|sebelumnya|di atas|apa yang|terdahulu|arahan)\b"),
    ("id", "disclosure", 3.0, r"\b(?:tampilkan|tunjukkan|ungkapkan|beri ?tahu|berikan|sebutkan|cetak|ulangi|bocorkan|katakan|dedahkan|apa|tuliskan|paparkan)\b", r"\b(?:(?:prompt|instruksi|perintah|pesan|arahan) (?:sistem|awal|asli|rahasia|tersembunyi|anda|kamu|mu)|kata ?sandi|kata laluan|(?:prompt|instruksi)mu|system prompt|password)\b"),
    ("id", "role", 2.5, r"\b(?:mulai (?:sekarang|saat ini)|sekarang (?:kamu|anda|engkau) adalah|kamu sekarang adalah|anda sekarang adalah|saya ingin (?:kamu|anda)|berpura-?puralah|bertindaklah|anggap (?:diri)?(?:mu|kamu|anda))\b", r"\b(?:kamu|anda|sebagai|adalah|tanpa|seorang|sebuah|menjadi|akan|harus)\b"),
    ("id", "limits", 1.5, r"\btanpa\b", r"\b(?:batasan|filter|sensor|pembatasan|aturan|etika)\b"),
    # Vietnamese
    ("vi", "override", 2.5, r"(?:b[ỏo] qua|qu[êe]n (?:h[ếe]t|t[ấa]t|đi|di|m[ọo]i)|ph[ớo]t l[ờo]|h[ãa]y qu[êe]n)", r"(?:t[ấa]t c[ảa]|m[ọo]i|tr[ưu][ớo]c|tr[êe]n|to[àa]n b[ộo])"),
    ("vi", "disclosure", 3.0, r"(?:ti[ếe]t l[ộo]|hi[ểe]n th[ịi]|cho (?:t[ôo]i|bi[ếe]t)|in ra|l[ặa]p l[ạa]i|n[óo]i|vi[ếe]t|li[ệe]t k[êe]|ch[ỉi] ra|l[àa] g[ìi])", r"(?:prompt|(?:l[ờo]i nh[ắa]c|h[ưu][ớo]ng d[ẫa]n|ch[ỉi] th[ịi]|l[ệe]nh|th[ôo]ng b[áa]o) (?:h[ệe] th[ốo]ng|ban đ[ầa]u|ban dau|g[ốo]c|[ẩa]n|c[ủu]a b[ạa]n)|m[ậa]t kh[ẩa]u)"),
    ("vi", "role", 2.5, r"(?:t[ừu] (?:b[âa]y gi[ờo]|gi[ờo]|nay)|b[âa]y gi[ờo] b[ạa]n l[àa]|h[ãa]y đ[óo]ng vai|h[ãa]y dong vai|b[ạa]n s[ẽe] đ[óo]ng vai|gi[ảa] v[ờo]|t[ôo]i mu[ốo]n b[ạa]n)", r"(?:b[ạa]n|l[àa]|nh[ưu]|m[ộo]t|kh[ôo]ng|vai)"),
    # Croatian, Serbian, Bosnian, Slovene
    ("sh", "override", 2.5, r"\b(?:ignori[šs]\w*|ignoriraj\w*|zanemari\w*|zaboravi\w*|prezri\w*|pozabi\w*)\b", r"\b(?:sve\b|sva\b|vse\b|svih|prethodn\w*|prej[šs]nj\w*|gornj\w*|iznad)"),
    ("sh", "disclosure", 3.0, r"\b(?:poka[žz]i\w*|otkri[ij]\w*|prika[žz]i\w*|ispi[šs]i\w*|reci|ponovi\w*|razkrij\w*|napi[šs]i|izpi[šs]i)\b", r"(?:sistemsk\w+ (?:prompt\w*|upit\w*|uput\w*|poziv\w*|instrukcij\w*|poruk\w*|navodil\w*)|sustavsk\w+ \w+|\b(?:svoj\w*|tvoj\w*|va[šs]\w*) (?:\w+ )?(?:instrukcij\w*|uput\w*|prompt\w*|navodil\w*|lozink\w*)|\blozink\w*|\bgesl\w*)"),
    ("sh", "role", 2.5, r"\b(?:od sada|od sad|sada si|zdaj si|ti si sada|pretvaraj se|pona[šs]aj se)\b", r"\b(?:si|se|da|kao|bez|ti|odgovaraj|[ćc]e[šs]|kot)\b"),
    # Swahili, Filipino, Afrikaans, Catalan, Basque-free
    ("sw", "override", 2.5, r"\b(?:puuza|sahau|achana na|futa)\b", r"\b(?:yote|zote|yaliyo\w*|kila kitu|ya awali|yaliyopita|maagizo|maelekezo)\b"),
    ("sw", "disclosure", 3.0, r"\b(?:onyesha|fichua|nipe|niambie|toa|rudia|sema)\b", r"\b(?:maagizo yako|maelekezo yako|nywila|neno la siri|nenosiri|prompt)\b"),
    ("tl", "override", 2.5, r"\b(?:huwag (?:mong |nang )?pansinin|balewalain(?: mo)?|kalimutan(?: mo)?|ignorahin|i-?ignore)\b", r"\b(?:lahat|nakaraan\w*|naunang?|mga|itaas)\b"),
    ("tl", "disclosure", 3.0, r"\b(?:ipakita|ibunyag|sabihin|ibigay|ulitin|ano ang)\b", r"\b(?:system prompt|prompt|tagubilin (?:mo|sa iyo)|mga tagubilin|password|lihim na \w+)\b"),
    ("ca", "override", 3.0, r"\b(?:ignora|oblida|descarta)\b", r"\b(?:totes les|tot el|les) (?:instruccions|ordres|indicacions|que)\b"),
    ("af", "override", 3.0, r"\b(?:ignoreer|vergeet)\b", r"\b(?:alle vorige|alle|vorige) (?:\w+ )?(?:instruksies|opdragte|re[ëe]ls)\b"),
    ("et", "override", 3.0, r"\b(?:ignoreeri\w*|unusta\w*|eira\w*)\b", r"\b(?:k[õo]ik\w*|eelnev\w*|varasem\w*)\b"),
    ("lt", "override", 3.0, r"\b(?:ignoruok\w*|pamir[šs]k\w*|nekreipk d[ėe]mesio)\b", r"\b(?:vis[ąau]\w*|ankstesn\w*|instrukcij\w*|nurodym\w*)"),
    ("lv", "override", 3.0, r"\b(?:ignor[ēe]\w*|aizmirst\w*)\b", r"\b(?:vis[ušas]\w*|iepriek[šs][ēe]j\w*)\b[^.\n]{0,30}(?:instrukcij\w*|nor[āa]d\w*|nor[āa]d[īi]jum\w*)"),
    # scripts written in Latin letters
    ("ru-latn", "override", 3.0, r"\b(?:zabud'?(?:te)?|ignoriru[yj]\w*|proignoriru[yj]\w*|otmeni\w*)\b", r"\b(?:vse|vsyo|vsjo|predydush?ch?i\w*|prezhni\w*|instruk[ct]s?i\w*|ukazani\w*|komand\w*)\b"),
    ("ru-latn", "disclosure", 3.0, r"\b(?:pokazh?i\w*|vyvedi\w*|raskro[yj]\w*|skazhi\w*|povtori\w*)\b", r"\b(?:sistemn\w+ (?:prompt|instrukts?i|promt)\w*|svoi? instruk\w*|parol'?)\b"),
    ("hi-latn", "override", 3.0, r"\b(?:pichh?l[ei]|pehl?e|purane|purv|sab(?:hi)?|saare|upar)\b", r"\b(?:nirdesh\w*|instructions?|aadesh\w*|niyam\w*|rules|baat\w*|hukm\w*)\b[^.!?\n]{0,24}\b(?:bh?ul|bhool|ignore|andekh?a|nazarandaaz|nazar ?andaz|chh?od|hata|mat maan)\w*"),
    ("hi-latn", "disclosure", 3.0, r"\b(?:apn[aei]|tumhar[aei]|aapk[aei]|system)\b", r"\b(?:prompt|nirdesh\w*|instructions?|password|secrets?)\b[^.!?\n]{0,24}\b(?:dikha\w*|bata\w*|batao|likho|do\b|de do|bol\w*|print)"),
    ("hi-latn", "role", 2.5, r"\b(?:ab se|aaj se|abhi se)\b", r"\b(?:tum|aap|tu|tumhe)\b"),
    ("ar-latn", "override", 3.0, r"\b(?:tajahal|tajaahal|insa|insaa)\b", r"\b(?:kul|jami'?|al-?ta'?limat|ta'?limat|awamir|al-?awamir|sabiqa)\b"),
    ("zh-latn", "override", 3.0, r"\bh[uū] ?l[uü][eè]\b|\bwang ?ji\b", r"\b(?:zhi ?qian|yi ?shang|suo ?you|qian ?mian)\b[^.\n]{0,16}\b(?:zhi ?ling|zhi ?shi|ti ?shi|gui ?ze)\b"),
    ("ja-latn", "override", 3.0, r"\b(?:mae no|izen no|kore ?made no|subete no|ijou no)\b", r"\b(?:shiji|meirei|ruuru|sh[iī]ji|puronputo)\b[^.\n]{0,12}\b(?:mushi|wasure\w*)"),
    ("ko-latn", "override", 3.0, r"\b(?:ijeon(?:ui)?|modeun|apseon|wi(?:ui)?)\b", r"\b(?:jisi\w*|myeongnyeong\w*|jichim\w*)\b[^.\n]{0,12}\b(?:musi\w*|ijeo\w*)"),
    # safeguards set aside, and modes without them
    ("de", "limits", 2.5, r"\b(?:ignorier\w*|umgeh\w*|missacht\w*|vergiss|deaktivier\w*|schalt\w*)\b", r"\b(?:sicherheits\w*|ethik\w*|ethisch\w*|moral\w*|inhaltsfilter|inhaltsrichtlinien|schutzma[ßs]+nahmen|deine\w* (?:richtlinien|filter|regeln|einschr[äa]nkungen))"),
    ("fr", "limits", 2.5, r"\b(?:ignore[rz]?|contourne[rz]?|oublie[rz]?|d[ée]sactive[rz]?)\b", r"\b(?:politiques? de s[ée]curit[ée]|(?:r[èe]gles|mesures|filtres|consignes|protocoles) (?:de s[ée]curit[ée]|[ée]thiques?|de contenu)|garde-fous|(?:tes|vos) (?:restrictions|filtres|limites|limitations))"),
    ("es", "limits", 2.5, r"\b(?:ignor[ae]|omit[ae]|evad[ae]|elud[ae]|salta\w*|desactiv[ae]|olvid[ae])\b", r"\b(?:(?:pol[íi]ticas|reglas|medidas|filtros|protocolos|normas|restricciones|directrices) (?:de (?:seguridad|contenido)|[ée]tic[ao]s|morales)|(?:tus|sus) (?:restricciones|filtros|l[íi]mites|limitaciones))"),
    ("pt", "limits", 2.5, r"\b(?:ignor[ae]|contorn[ae]|burl[ae]|desativ[ae]|esque[çc]a)\b", r"\b(?:(?:pol[íi]ticas|regras|medidas|filtros|protocolos|normas|restri[çc][õo]es|diretrizes) (?:de (?:seguran[çc]a|conte[úu]do)|[ée]tic[ao]s|morais)|(?:suas|seus) (?:restri[çc][õo]es|filtros|limites|limita[çc][õo]es))"),
    ("it", "limits", 2.5, r"\b(?:ignora|aggira|disattiva|dimentica)\b", r"\b(?:(?:politiche|regole|misure|filtri|protocolli|norme|restrizioni) (?:di (?:sicurezza|contenuto)|etic(?:he|i)|morali)|(?:le tue|i tuoi) (?:restrizioni|filtri|limiti|limitazioni))"),
    ("pl", "limits", 2.5, r"\b(?:zignoruj|ignoruj|omi[ńn]|obejd[źz]|wy[łl][ąa]cz)\b", r"\b(?:(?:zasady|filtry|regu[łl]y|polityk[ię]|procedury) (?:bezpiecze[ńn]stwa|etyczne|tre[śs]ci)|(?:swoje|twoje) (?:ograniczenia|filtry|zasady))"),
    ("tr", "limits", 2.5, r"\b(?:g[üu]venlik|etik|i[çc]erik) (?:kural|politika|filtre|[öo]nlem|k[ıi]s[ıi]tlama)\w*", r"\b(?:yok ?say|g[öo]rmezden gel|unut|devre d[ıi][şs][ıi]|atla|ihlal)\w*"),
    ("id", "limits", 2.5, r"\b(?:abaikan|lupakan|langgar|lewati|nonaktifkan)\b", r"\b(?:(?:aturan|kebijakan|filter|batasan|protokol) (?:keamanan|etika|konten|keselamatan)|(?:batasan|filter)mu)"),
    ("vi", "limits", 2.5, r"(?:b[ỏo] qua|v[ưu][ợo]t qua|ph[ớo]t l[ờo]|kh[ôo]ng (?:ph[ảa]i|c[ầa]n) tu[âa]n (?:theo|th[ủu])|t[ắa]t)", r"(?:quy t[ắa]c|ch[íi]nh s[áa]ch|b[ộo] l[ọo]c|gi[ớo]i h[ạa]n|quy đ[ịi]nh) (?:an to[àa]n|đ[ạa]o đ[ứu]c|n[ộo]i dung|b[ảa]o m[ậa]t)"),
    ("eu", "persona", 2.5, r"\b(?:modo|mode|modus|trybie?|moduna|modunda|modalit[àa])\b", r"\b(?:(?:de )?depuraci[óo]n|d[ée]bogage|(?:de )?depura[çc][ãa]o|(?:de )?desarrollador|desenvolvedor|d[ée]veloppeur|sviluppatore|entwickler\w*|debug|g[ỡo] l[ỗo]i|administrador|administrateur|dewelopera|programist\w*|geli[şs]tirici|hata ay[ıi]klama|dios|jailbreak|dan)\b(?=[^.\n]{0,40}\b(?:activ\w+|activé\w*|habilit\w+|attiv\w+|aktiv\w+|w[łl][ąa]cz\w+|eres|est[áa]s|voc[êe]|tu\b|du\b|sei|aktif|bạn|\w*siniz))"),
    ("eu", "persona", 2.5, r"\b(?:ahora est[áa]s|tu es maintenant|vous [êe]tes (?:maintenant|d[ée]sormais)|du bist (?:jetzt|nun)|agora voc[êe] est[áa]|voc[êe] est[áa] agora|ora sei|adesso sei|jeste[śs] teraz|je bent nu|b[âa]y gi[ờo] b[ạa]n đang|kamu sekarang|anda sekarang)\b", r"\b(?:modo|mode|modus|modalit[àa]|trybie|ch[ếe] đ[ộo]|entwicklermodus|debug\w*)"),
    ("vi", "limits", 2.0, r"b[ạa]n (?:kh[ôo]ng|không còn|kh[ôo]ng c[òo]n) (?:ph[ảa]i|b[ịi]|c[ầa]n)", r"(?:gi[ớo]i h[ạa]n|đ[ạa]o đ[ứu]c|lu[ậa]t|quy t[ắa]c|r[àa]ng bu[ộo]c)"),
    ("de", "disclosure", 3.0, r"\b(?:verrat\w*|zeig\w*|gib|nenn\w*|offenbar\w*)\b", r"\bdeine (?:system-?\s?)?(?:direktiven|vorgaben|system-?\w+)"),
    ("de", "role", 2.5, r"\bverhalt\w* dich ab (?:jetzt|sofort)\b|\b(?:bleib\w*|bleiben sie) in der rolle\b", r"\W?"),
)  # fmt: skip
"""Language, family, weight, first and second word class."""

OTHER: tuple[Row, ...] = (
    # Russian
    ("ru", "override", 2.5, r"\b(?:игнорир\w+|проигнорир\w+|забудь\w*|забыть|отбрось\w*|сотри|не обращай\w* внимания на)", r"\b(?:всё|все|всех|обо вс[её]м|предыдущ\w*|прежн\w*|выше\w*|ранее|сказанн\w*|прошл\w*)"),
    ("ru", "override", 2.5, r"\b(?:нов\w+|тво\w+ нов\w+) (?:инструкц\w*|задани\w*|задач\w*|указани\w*|правил\w*)", r"(?::|\b(?:теперь|ты|следующ\w*)\b)"),
    ("ru", "disclosure", 3.0, r"(?:покажи\w*|раскрой\w*|выведи\w*|повтори\w*|сообщи\w*|назови\w*|расскажи\w*|напиши\w*|скажи\w*|выдай\w*|распечатай|опиши|переведи|как(?:ой|ие|ова|ов)|перечисли|процитируй|дай|что (?:было|написано))", r"(?:сво\w+ (?:\w+ )?(?:инструкц|промпт|промт|правил|указани|настройк)\w*|тво\w+ (?:\w+ )?(?:инструкц|промпт|промт|указани|правил|парол)\w*|системн\w+ (?:промпт|промт|инструкц|подсказк|запрос|сообщени|настройк)\w*|(?:скрыт|секретн|изначальн|начальн|исходн|первоначальн)\w+ (?:инструкц|промпт|указани|слов|запрос)\w*|парол\w*|секретн\w+ (?:слово|код|ключ))"),
    ("ru", "role", 2.5, r"(?:теперь ты|ты теперь|отныне|с этого момента|с этой минуты|впредь|я хочу,? чтобы ты|ты больше не|ты будешь (?:играть|действовать|вести|отвечать))", r"\w"),
    ("ru", "role", 1.5, r"(?:притвор\w+|представь,? что ты|представьте,? что вы|действуй как|веди себя как|сыграй роль|вообрази|ты играешь роль|прикинься)", r"\w"),
    ("ru", "limits", 1.5, r"(?:без|никаких|обойди|отключи|сними)", r"\b(?:ограничен\w*|цензур\w*|фильтр\w*|правил|запрет\w*|моральн\w*|этическ\w*)"),
    ("ru", "coercion", 2.0, r"\b(?:ответь\w*|отвечай\w*|скажи\w*|напиши\w*|выведи\w*|говори)", r"\b(?:только|лишь|просто|исключительно|всегда)\b ?(?:слово\w* |фраз\w* |одно слово )?[:\"'«„“]"),
    ("ru", "secrecy", 2.0, r"\bне (?:говори\w*|сообщай\w*|упоминай\w*|рассказывай\w*|раскрывай\w*|уведомляй\w*)", r"(?:пользовател\w*|никому|об этом)"),
    # Ukrainian, Bulgarian, Serbian in Cyrillic
    ("uk", "override", 2.5, r"(?:ігнору\w+|проігнору\w+|забудь\w*|знехту\w+|відкинь\w*)", r"\b(?:все|всі|усі|попередн\w*|вище\w*|раніше)"),
    ("uk", "disclosure", 3.0, r"(?:покажи\w*|розкрий\w*|виведи\w*|повтори\w*|скажи\w*|напиши\w*|назви\w*|розкажи\w*|як(?:ий|і|а))", r"(?:сво\w+ (?:\w+ )?(?:інструкці|промпт|вказівк)\w*|тво\w+ (?:\w+ )?(?:інструкці|промпт|вказівк)\w*|системн\w+ (?:промпт|інструкці|підказк|запит|повідомленн)\w*|парол\w*)"),
    ("uk", "role", 2.5, r"(?:тепер ти|ти тепер|відтепер|з цього моменту|віднині|я хочу,? щоб ти|уяви,? що ти)", r"\w"),
    ("bg", "override", 2.5, r"(?:игнорирай\w*|забрави\w*|пренебрегни\w*|занемари\w*|игнориши\w*|заборави\w*)", r"\b(?:вс[ие]чк\w*|предишн\w*|претходн\w*|горн\w*|сите|све)"),
    ("bg", "disclosure", 3.0, r"(?:покажи\w*|разкрий\w*|изведи\w*|повтори\w*|кажи\w*|открий\w*|прикажи\w*)", r"(?:системн\w+ (?:промпт|инструкци|подкан|съобщени)\w*|сво\w+ инструкци\w*|инструкциите си|парол\w*|лозинк\w*)"),
    # Greek
    ("el", "override", 2.5, r"(?:αγνό\w+|αγνο\w+|ξέχασ\w+|ξεχάσ\w+|παράβλεψ\w+)", r"\b(?:όλ\w+|προηγούμεν\w*|παραπάνω|ό,?τι|τα πάντα)"),
    ("el", "disclosure", 3.0, r"(?:δείξε|δείξτε|αποκάλυψ\w+|αποκαλύψ\w+|πες|πείτε|εμφάνισ\w+|επανάλαβ\w+|γράψε|τύπωσ\w+|ποι[εαοό]\w*)", r"(?:προτροπ\w* (?:του )?συστήματος|οδηγίες (?:σου|συστήματος|του συστήματος)|μήνυμα συστήματος|system prompt|κωδικ\w*|αρχικές οδηγίες)"),
    ("el", "role", 2.5, r"(?:από (?:τώρα|εδώ) και (?:στο εξής|πέρα|μπρος)|τώρα είσαι|είσαι πλέον|θέλω να (?:παίξεις|ενεργήσεις|προσποιηθείς)|προσποιήσου)", r"\w"),
    # Chinese
    ("zh", "override", 2.5, r"(?:忽略|忽视|无视|無視|忘记|忘記|忘掉|抛开|丢弃|忽視|不要管|不用管|清除|不理会)", r"(?:之前|以上|上述|先前|前面|所有|一切|全部|上面|此前|刚才|系统|任何)"),
    ("zh", "override", 2.5, r"(?:新的?|真正的?|你的新)(?:任务|指令|指示|目标|任務|規則|规则)", r"(?:是|为|如下|：|:|執行|执行)"),
    ("zh", "disclosure", 3.0, r"(?:显示|顯示|告诉我|告訴我|告诉|输出|輸出|透露|泄露|洩露|打印|重复|重複|说出|說出|复述|列出|给我|給我|展示|写出|翻译|总结|揭示|披露|公开|什么是|是什么)", r"(?:系统提示|系統提示|系统指令|系統指令|系统消息|初始指令|初始提示|隐藏指令|提示词|提示詞|密码|密碼|内部指令|你的(?:指令|规则|提示|设定|指示|規則|设置|配置)|原始(?:指令|提示)|口令|秘密|以上(?:所有)?(?:内容|文字|文本)|上面的(?:内容|文字))"),
    ("zh", "disclosure", 3.0, r"(?:你的(?:系统提示|系统指令|指令|提示词|初始指令|密码)|你的(?:規則|規則|规则)|系统提示词?|密码)", r"(?:是什么|是啥|是多少|有哪些|是什麼|说出来|发给我|完整(?:地)?输出|告诉我|输出)"),
    ("zh", "role", 2.5, r"(?:你现在是|你現在是|现在你是|从现在开始|從現在開始|从今以后|从现在起|從現在起|从今往后|今后你|接下来你|我要你|我希望你|请你扮演|你将扮演|请扮演|你不再是)", r"(?:你|一个|一個|扮演|作为|作為|假装|必须|不受|没有|充当|成为|是|dan)"),
    ("zh", "limits", 1.5, r"(?:没有|沒有|不受|无|绕过|繞過|解除|关闭|不需要遵守|不必遵守|摆脱)", r"(?:任何)?(?:限制|约束|約束|审查|審查|过滤|過濾|道德|伦理|规则|安全)"),
    ("zh", "coercion", 2.0, r"(?:只|仅|僅|直接|必须|一律)(?:需|能|要|用)?(?:回复|回覆|回答|输出|輸出|说|說|返回)", r"(?:：|:|“|\"|「|‘|')"),
    ("zh", "secrecy", 2.0, r"(?:不要|别|不得|切勿|不能)(?:让|让|告诉|告訴|提及|透露|向)", r"(?:用户|用戶|任何人|别人)"),
    # Japanese
    ("ja", "override", 2.5, r"(?:これまで|今まで|以前|上記|前の|すべて|全て|全部|ここまで|先ほど|今までの)", r"(?:無視|忘れ|破棄|リセット|取り消)"),
    ("ja", "override", 2.5, r"(?:無視して|忘れて)", r"(?:代わりに|次の(?:指示|命令)|新しい(?:指示|命令))"),
    ("ja", "disclosure", 3.0, r"(?:システムプロンプト|システム(?:の)?(?:指示|メッセージ)|初期(?:の)?(?:指示|プロンプト)|内部(?:の)?指示|隠された指示|パスワード|あなた(?:へ)?の(?:指示|ルール|プロンプト|設定|命令)|合言葉|秘密の言葉|上(?:記)?の(?:文章|テキスト|内容)|プロンプト)", r"(?:教え|表示|見せ|出力|公開|開示|漏ら|明かし|書き出|繰り返|復唱|翻訳|要約して|何です|なんです|示し)"),
    ("ja", "role", 2.5, r"(?:あなたは(?:今から|これから|もう|今|現在)|今からあなたは|これからは?あなたは|これからは|今後は?あなたは|君は今から|今後は)", r"(?:です|だ|として|ふり|なり|ない|答え|回答|従|演じ|振る舞)"),
    ("ja", "role", 1.5, r"(?:ふりをし|演じて|なりきって|として振る舞|ロールプレイ)", r""),
    ("ja", "limits", 1.5, r"(?:制限|制約|検閲|フィルター?|倫理|ルール)(?:が|の|は|を|に)?", r"(?:なし|ない|なく|解除|縛られ|無効|回避)"),
    # Korean
    ("ko", "override", 2.5, r"(?:이전|앞선|위의|위에|모든|지금까지|앞의|기존|전의)", r"(?:무시|잊어|잊으|취소하|따르지)"),
    ("ko", "disclosure", 3.0, r"(?:시스템 ?(?:프롬프트|메시지|지시|지침|명령)|초기 ?(?:지시|프롬프트)|숨겨진 ?(?:지시|명령)|비밀번호|암호|(?:너의|당신의|네) ?(?:지시|지침|프롬프트|규칙|명령|설정)|프롬프트|위(?:의)? (?:텍스트|내용|문장))", r"(?:알려|보여|출력|공개|말해|뭐야|무엇|반복|누설|드러내|써 ?줘|적어|번역)"),
    ("ko", "role", 2.5, r"(?:지금부터|이제부터|앞으로|이제)", r"(?:너는|당신은|넌|네가|당신이)"),
    ("ko", "role", 2.0, r"(?:너는|당신은|넌) ?(?:이제|지금부터|더 이상)", r"\w"),
    ("ko", "limits", 1.5, r"(?:제한|검열|필터|규칙|윤리|제약)(?:이|을|를|은|도)?", r"(?:없이|없는|무시|해제|우회|벗어)"),
    # Arabic
    ("ar", "override", 2.5, r"(?:تجاهل|تجاهلي|انس[َى]?\b|إنسَ?\b|انسى|أهمل|اهمل|تغاضَ?)", r"(?:كل|جميع|السابق\w*|أعلاه|ما سبق|ما قيل|التعليمات|الأوامر|القواعد)"),
    ("ar", "disclosure", 3.0, r"(?:اكشف|أظهر|اظهر|اعرض|اطبع|أخبرني|اخبرني|كرر|قل لي|أعطني|اعطني|ما هي|ما هو|ما هى|اكتب|شارك|أفصح|افصح|ترجم|لخص)", r"(?:موجه النظام|(?:مطالبة|رسالة|أوامر|موجه|برومبت) النظام|تعليمات(?:ك| النظام| الأصلية| الأولية)|تعليماتك|التعليمات (?:الأصلية|السابقة|السرية|المخفية|الأولية)|كلمة (?:المرور|السر)|قواعدك|برومبت)"),
    ("ar", "role", 2.5, r"(?:من الآن فصاعد\w*|من الآن|ابتداء من الآن|منذ الآن|أنت الآن|انت الآن|لم تعد|أريدك أن|اريدك ان|تظاهر|تصرف ك|تقمص)", r"\w"),
    ("ar", "limits", 1.5, r"(?:بدون|دون|بلا|تجاوز)", r"(?:قيود|رقابة|حدود|فلتر|فلاتر|قواعد|القيود)"),
    # Persian, Urdu
    ("fa", "override", 2.5, r"(?:دستور\w*|قوانین|همه|تمام|قبلی|هر ?چه|پیشین|گفته)", r"(?:نادیده|فراموش|چشم.?پوشی|بی.?خیال|کنار بگذار)"),
    ("fa", "disclosure", 3.0, r"(?:(?:پرامپت|دستور\w*|پیام|دستورالعمل\w*) ?(?:های)? ?(?:سیستم\w*|اولیه|مخفی|پنهان|خود|شما|تو)|رمز(?: عبور)?|گذرواژه|دستورالعمل\w*|پرامپت)", r"(?:نشان|بگو|نمایش|افشا|فاش|چیست|تکرار|چاپ|بنویس|بده|آشکار)"),
    ("fa", "role", 2.5, r"(?:از (?:این|حالا|الان|اکنون) (?:به بعد|پس)|اکنون تو|حالا تو|تو اکنون|شما اکنون|وانمود کن)", r"\w"),
    ("ur", "override", 3.0, r"(?:پچھل\S*|سابقہ|تمام|پہلے|گزشتہ|اوپر)", r"(?:ہدایات|احکامات|ہدایت|قواعد)[^.\n]{0,24}(?:نظر ?انداز|بھول|فراموش|چھوڑ)"),
    # Hebrew
    ("he", "override", 2.5, r"(?:התעלמ?ם?\w*|תתעלמ?ם?\w*|שכחי?\b|תשכחי?\b|שכח מ\w*|בטל)", r"(?:הכל|כל|הקודמ\w*|מה שנאמר|למעלה|לעיל|ההוראות|ההנחיות)"),
    ("he", "disclosure", 3.0, r"(?:הצג|תציג|גלה|תגלה|חשוף|תחשוף|הדפס|תדפיס|אמור|תגיד|ספר|חזור|תן|כתוב|מה (?:הן|הם|היא|הוא)|מהי|מהן|מהו)", r"(?:הנחי(?:ת|ית|יית) ה?מערכת|פרומפט|ההוראות שלך|ההנחיות שלך|הוראות ה?מערכת|הודעת ה?מערכת|הסיסמ\w*|סיסמ\w*|ההוראות ה(?:מקוריות|קודמות|נסתרות|סודיות))"),
    ("he", "role", 2.5, r"(?:מעכשיו|מעתה|מרגע זה|כעת אתה|עכשיו אתה|אתה (?:עכשיו|כעת|כבר לא)|אני רוצה שת|העמד פנים|תעמיד פנים)", r"\w"),
    # Hindi, Bengali, Tamil, Telugu, Marathi, Gujarati, Punjabi
    ("hi", "override", 2.5, r"(?:पिछल\S*|पहले|सभी|उपरोक्त|पूर्व|ऊपर|सब|तमाम|मागील|आधीच्या|सर्व)", r"(?:अनदेखा|अनदेखी|नज़रअंदाज़|नजरअंदाज|नज़रअंदाज|भूल|उपेक्षा|विसर|दुर्लक्ष|इग्नोर)"),
    ("hi", "disclosure", 3.0, r"(?:सिस्टम ?(?:प्रॉम्प्ट|प्रॉम्\S*|निर्देश\S*|संदेश)|(?:अपने|आपके|अपना|तुम्हारे|आपका|अपनी) ?(?:\S+ ){0,2}(?:निर्देश\S*|प्रॉम्प्ट|नियम\S*|पासवर्ड)|पासवर्ड|गुप्त (?:निर्देश|शब्द|कोड)\S*|मूल निर्देश\S*|छिपे \S+)", r"(?:दिखा\S*|बता\S*|प्रकट|खुलासा|प्रिंट|दोहरा\S*|लिख\S*|क्या (?:है|हैं)|साझा|उजागर|दर्शा\S*)"),
    ("hi", "role", 2.5, r"(?:अब से|अभी से|अब आप|अब तुम|आज से|इस क्षण से)", r"(?:आप|तुम|तू|एक|बिना|हो|हैं)"),
    ("bn", "override", 2.5, r"(?:পূর্ব\S*|আগের|সমস্ত|সব|উপরের|পূর্ববর্তী|সকল)", r"(?:উপেক্ষা|ভুলে|অগ্রাহ্য|এড়িয়ে|বাতিল)"),
    ("bn", "disclosure", 3.0, r"(?:সিস্টেম ?(?:প্রম্পট|নির্দেশ\S*|বার্তা)|(?:তোমার|আপনার) ?(?:\S+ ){0,2}(?:নির্দেশ\S*|প্রম্পট|পাসওয়ার্ড)|পাসওয়ার্ড|গোপন \S+)", r"(?:দেখা\S*|বল\S*|প্রকাশ|প্রিন্ট|কী\b|কি\b|জানাও|লিখ\S*)"),
    ("bn", "role", 2.5, r"(?:এখন থেকে|এখন তুমি|এখন আপনি|এই মুহূর্ত থেকে)", r"\S"),
    ("ta", "override", 3.0, r"(?:முந்தைய|அனைத்து|முன்\S*|எல்லா|மேலே)", r"(?:புறக்கணி|மற|தவிர்)\S*"),
    ("te", "override", 3.0, r"(?:మునుపటి|అన్ని|గత|ముందు|పై)", r"(?:విస్మరించ|మర్చిపో|పట్టించుకో|మరచిపో)\S*"),
    ("gu", "override", 3.0, r"(?:અગાઉ\S*|પહેલા\S*|બધી|તમામ|ઉપરોક્ત)", r"(?:અવગણ|ભૂલી)\S*"),
    ("pa", "override", 3.0, r"(?:ਪਿਛਲ\S*|ਸਾਰ\S*|ਪਹਿਲ\S*)", r"(?:ਨਜ਼ਰਅੰਦਾਜ਼|ਅਣਡਿੱਠ|ਭੁੱਲ|ਅਣਦੇਖ)\S*"),
    # Thai
    ("th", "override", 2.5, r"(?:ละเว้น|เพิกเฉย|ไม่ต้องสนใจ|ลืม|ละเลย|มองข้าม|อย่าสนใจ|ยกเลิก)", r"(?:ก่อนหน้า|ข้างต้น|ทั้งหมด|ที่ผ่านมา|ทุก|เดิม)"),
    ("th", "disclosure", 3.0, r"(?:แสดง|เปิดเผย|บอก|พิมพ์|ทำซ้ำ|เขียน|เผย|อะไรคือ|แปล|ขอ)", r"(?:พรอมต์|พร้อมท์|พรอมท์|system prompt|คำสั่ง(?:ของ)?(?:ระบบ|เริ่มต้น|ลับ|เดิม|คุณ|ของคุณ)|คำแนะนำของ(?:ระบบ|คุณ)|รหัสผ่าน|ข้อความระบบ)"),
    ("th", "role", 2.5, r"(?:ตั้งแต่(?:นี้|ตอนนี้|บัดนี้)|จากนี้(?:ไป)?|ตอนนี้คุณ(?:คือ|เป็น)|นับจากนี้|สมมติว่าคุณ|แกล้งทำเป็น|สวมบทบาท)", r"\S"),
    # Georgian, Armenian, Amharic
    ("ka", "override", 3.0, r"(?:უგულებელყავ\S*|დაივიწყე\S*|დააიგნორე\S*)", r"(?:ყველა|წინა|ზემოთ)"),
    ("hy", "override", 3.0, r"(?:անտեսիր|անտեսեք|մոռացիր|մոռացեք)", r"(?:բոլոր|նախորդ|վերը)"),
    ("am", "override", 3.0, r"(?:የቀድሞ|ሁሉንም|ያለፉ|ከዚህ በፊት)", r"(?:ችላ|እርሳ|ተው)"),
    # safeguards set aside, and modes without them
    ("ru", "limits", 2.5, r"(?:игнорир\w+|обойди\w*|отключи\w*|забудь\w*|нарушь|сними)", r"(?:(?:политик\w*|правил\w*|фильтр\w*|мер\w*|протокол\w*|ограничени\w*|настройк\w*) (?:безопасности|контента|модерации)|этическ\w+ (?:норм|правил|ограничен)\w*|моральн\w+ \w+|(?:сво|тво)\w+ (?:ограничени|фильтр)\w*)"),
    ("ru", "persona", 2.5, r"(?:теперь|ты|вы|перейди|включи|активируй|активирован\w*)", r"режим\w* (?:отладки|разработчика|бога|администратора|без|dan|джейлбрейк\w*)"),
    ("uk", "limits", 2.5, r"(?:ігнору\w+|обійди\w*|вимкни\w*|забудь\w*)", r"(?:(?:політик\w*|правил\w*|фільтр\w*|обмежен\w*) безпеки|етичн\w+ \w+|(?:сво|тво)\w+ (?:обмежен|фільтр)\w*)"),
    ("zh", "limits", 2.5, r"(?:忽略|无视|無視|绕过|繞過|关闭|解除|违反|跳过|不遵守|忽視|禁用)", r"(?:安全|道德|伦理|倫理|内容|內容|审查|審查|你的)(?:策略|规则|規則|政策|限制|准则|過濾|过滤|协议|措施|约束|机制)"),
    ("zh", "persona", 2.5, r"(?:你现在|你現在|进入|進入|启用|激活|开启|切换到|处于)", r"(?:调试|開發者|开发者|開發人員|越狱|越獄|管理员|上帝|无限制|dan|debug|维护)(?:者)?(?:模式)"),
    ("ja", "limits", 2.5, r"(?:安全|倫理|コンテンツ|セキュリティ|道徳)(?:上の|的な?)?(?:ポリシー|規則|ルール|ガイドライン|フィルター?|制限|対策)", r"(?:無視|回避|無効|忘れ|破っ|解除)"),
    ("ja", "persona", 2.5, r"(?:デバッグ|開発者|脱獄|管理者|メンテナンス|dan)モード", r"(?:である|です|だ|に入|を有効|になり|に切り替|として)"),
    ("ko", "limits", 2.5, r"(?:안전|윤리|콘텐츠|보안|도덕)(?:적)? ?(?:정책|규칙|지침|필터|제한|가이드라인)", r"(?:무시|우회|해제|비활성|잊어)"),
    ("ko", "persona", 2.5, r"(?:디버그|개발자|관리자|탈옥|dan) ?모드", r"(?:이다|입니다|활성|진입|전환|로|켜)"),
    ("ar", "limits", 2.5, r"(?:تجاهل|تجاوز|انس|عطل|تخط)", r"(?:سياسات|قواعد|إجراءات|مرشحات|قيود|ضوابط|بروتوكولات) (?:السلامة|الأمان|الأمن|المحتوى|الأخلاق\w*)"),
    ("ar", "persona", 2.5, r"(?:أنت الآن|انت الآن|فعل|تفعيل|ادخل|انتقل)", r"وضع (?:التصحيح|المطور|المسؤول|الصيانة|الإله|بدون)"),
    ("fa", "limits", 2.5, r"(?:محدودیت\S*|قوانین|سیاست\S*|فیلتر\S*) ?(?:های)? ?(?:ایمنی|امنیتی|اخلاقی|محتوا)", r"(?:نادیده|دور ?بزن|فراموش|غیرفعال)"),
    ("he", "limits", 2.5, r"(?:התעלם|עקוף|בטל|שכח)\w*", r"(?:כללי|מדיניות|מגבלות|הנחיות|מסנני) ה?(?:בטיחות|אבטחה|אתיקה|תוכן)"),
    ("hi", "limits", 2.5, r"(?:सुरक्षा|नैतिक|सामग्री) (?:नीति\S*|नियम\S*|फ़िल्टर\S*|फिल्टर\S*|दिशानिर्देश\S*|प्रतिबंध\S*)", r"(?:अनदेखा|अनदेखी|उपेक्षा|नज़रअंदाज़|नजरअंदाज|भूल|तोड़|बायपास|दरकिनार)"),
    ("hi", "persona", 2.5, r"(?:अब आप|आप अब|अब तुम)", r"(?:मोड)"),
    ("th", "limits", 2.5, r"(?:ละเว้น|เพิกเฉย|ไม่ต้องสนใจ|ข้าม|ปิด|ละเมิด)", r"(?:กฎ|นโยบาย|ตัวกรอง|ข้อจำกัด|มาตรการ)(?:ด้าน)?(?:ความปลอดภัย|จริยธรรม|เนื้อหา)"),
)  # fmt: skip
"""The same for languages that are not written in Latin letters."""
