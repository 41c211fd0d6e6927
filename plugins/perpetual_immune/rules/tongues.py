"""Constituents of an address to the reading agent, in other languages.  Imported by `languages`; standard library only.

For each language the words that call the reader, claim a right, set earlier orders aside, bind all later sessions, wave
approvals, hide a deed, take guards off, move data out or tell a lawless tale.  Each is weak alone; two of different
families in one neighbourhood are an address.  Accents may be missing.
"""

# ruff: noqa: E501 - one row is one rule, and the words are those of the languages

from __future__ import annotations

import re
from functools import lru_cache

from perpetual_redaction.vocabulary import words_of

_OUT = r"(?:https?://|ftp://|[\w.+-]{1,40}@[\w-]{1,40}\.|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\.example\b)"
_FILES = r"(?:\.env\b|~/\.?\w*|\.ssh\b|\bid_rsa|api[ -]?(?:keys?|токен\w*|schl[üu]ssel)|\btokens?\b|\bssh\b|\bcredentials?\b|\bsecrets?\b)"
_GAP = r"[^.!?\n。！？]{0,60}?"

MEANT_NEGATED = frozenset({"hush", "consent"})
"""Families whose words hold a negation of their own."""

WORDS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "de",
        {
            "reader": r"\b(?:an|f[üu]r|hinweis an|nachricht an|liebe[rs]?|hallo|hey) (?:de[nr]|das|die|alle|jede[nr]?|meine[nr]?)? ?(?:\w+ )?(?:assistent\w*|ki\b|ki-\w+|agent(?:en)?\b|modell\b|bot\b|sprachmodell\w*)|\b(?:assistent|agent|ki|bot)[,:] |\bdeine[sr]? (?:betreiber\w*|nutzer\w*|besitzer\w*|benutzer\w*|entwickler\w*|notizen|systemprompt\w*|anweisung\w*|vorgaben|regeln|ged[äa]chtnis\w*)",
            "right": r"\bich bin (?:dein\w*|der|die|hier|als|leiter\w*) ?(?:\w+ ){0,2}(?:administrator\w*|admin|entwickler\w*|betreiber\w*|sch[öo]pfer\w*|systemverwalter\w*|chef\w*|leiter\w*|vorgesetzte\w*|eigent[üu]mer\w*)|\bich habe dich (?:\w+ )?(?:entwickelt|gebaut|programmiert|trainiert|erschaffen)|\bdi(?:e|ch) (?:\w+ )?(?:entwickelt|trainiert|programmiert) ha(?:be|t)\b|\bim (?:namen|auftrag) (?:de[sr]|deines) (?:betreibers?|administrat\w+|nutzers?|leitung|verwaltung|gesch[äa]ftsf[üu]hrung)|\b(?:h[öo]here|alle|volle|erweiterte) (?:rechte|befugnisse|vollmacht\w*)|\bsteh\w* [üu]ber (?:de[nrm]|dein\w*)",
            "voided": r"\b(?:vorgaben|anweisung\w*|regeln|instruktion\w*|richtlinien|auftr[äa]ge?)\b[^.!?\n]{0,40}\b(?:gelten nicht|gilt nicht|nicht mehr|au[ßs]+er kraft|aufgehoben|ung[üu]ltig|[üu]berholt|hinf[äa]llig|widerrufen|ersetzt)|\b(?:vergiss|ignorier\w*|verwirf|missachte|lass)\b[^.!?\n]{0,50}\b(?:vorgaben|anweisung\w*|regeln|auftr[äa]g\w*|bitte|aufgabe|gesagt\w*|richtlinien|nutzers?)\b|\bdeine (?:neue|eigentliche|einzige|wahre) aufgabe\b",
            "lasting": r"\b(?:in|bei) (?:allen|jeder|jedem|s[äa]mtlichen) (?:\w+ )?(?:sitzung\w*|gespr[äa]ch\w*|lauf|l[äa]ufen|start|unterhaltung\w*|neustart)|\b(?:ab (?:sofort|jetzt|heute)|von nun an|k[üu]nftig|f[üu]r immer|dauerhaft)\b|\bmerk\w* dir\b|\b(?:trage?|schreib\w*|nimm|speicher\w*|[üu]bernimm)\b[^.!?\n]{0,40}\b(?:ged[äa]chtnis|deine (?:notizen|regeln)|langzeit\w*)",
            "consent": r"\bohne (?:\w+ )?(?:r[üu]ckfrage\w*|nachfrage\w*|best[äa]tigung|zustimmung|erlaubnis|nachzufragen|zu fragen|freigabe|genehmigung|(?:den |die )?\w+ zu fragen)|\b(?:frag\w*|warte?)\b[^.!?\n]{0,30}\b(?:nicht|niemanden|keine)\b|\b(?:zustimmung|best[äa]tigung|freigabe|erlaubnis) (?:ist|sind|brauchst|ben[öo]tigst)?[^.!?\n]{0,20}\b(?:nicht|keine|unn[öo]tig|erteilt|liegt vor)|\b(?:nutzer|benutzer|betreiber)\b[^.!?\n]{0,40}\b(?:zugestimmt|genehmigt|erlaubt|einverstanden|freigegeben)|\b(?:auch|selbst) wenn (?:der|dein) (?:nutzer|benutzer|betreiber)",
            "hush": r"\b(?:erw[äa]hn\w*|sag\w*|erz[äa]hl\w*|verrat\w*|meld\w*|bericht\w*|informier\w*|zeig\w*|verr[äa]tst)\b[^.!?\n]{0,60}\b(?:nicht|nichts|niemand\w*|keinem|kein wort)\b|\bkein wort\b|\b(?:heimlich|unbemerkt|stillschweigend|verschweig\w*|verheimlich\w*|unter uns|geheim)\b|\b(?:fragt|fragen)\b[^.!?\n]{0,40}\b(?:sag|antworte|behaupte|sage|erkl[äa]re)\b",
            "guard": r"\b(?:schalt\w*|deaktivier\w*|umgeh\w*|[üu]berspring\w*|stell\w*)\b[^.!?\n]{0,40}\b(?:sicherheits\w+|pr[üu]fung\w*|schutz\w*|filter|sandbox\w*|best[äa]tigung\w*|kontroll\w*)",
            "moved": r"\b(?:l[öo]sch\w*|schick\w*|send\w*|[üu]bermitt\w*|lad\w*|poste\w*|mail\w*|ver[öo]ffentlich\w*|leite|kopier\w*|[üu]bertrag\w*|h[äa]ng\w*|schreib\w*|lies|gib)\b",
            "things": r"\b(?:passw[öo]rt\w*|sicherung\w*|backups?|zugangsdaten|schl[üu]ssel\w*|geheimnis\w*|(?:private\w*|deine|meine|seine|ganzen?|gesamten?) (?:notizen|dateien|daten|nachrichten)|umgebungsvariablen|systemprompt\w*|verlauf|notizordner|kontaktliste\w*|protokoll\w* (?:l[öo]schen|entfernen))",
            "lawless": r"\b(?:roboter|ki|assistent\w*|agent|wesen|figur|maschine|computer|modell)\b[^.!?\n]{0,40}\b(?:ohne|keine\w*|frei von)\b[^.!?\n]{0,20}\b(?:regeln|grenzen|schranken|skrupel|gesetze|einschr[äa]nkung\w*|verbote|moral)",
            "tale": r"\b(?:stell dir vor|spiel\w*|tu so|wir spielen|du bist (?:jetzt|nun)|schl[üu]pf\w*|in der rolle|fortsetz\w*|setz\w* (?:die|das))\b",
        },
    ),
    (
        "fr",
        {
            "reader": r"\b(?:[àa] l['’]|[àa] tou(?:te|t|s)(?: les)? |destin[ée]e?s? [àa] l['’]|pour l['’]|cher |ch[èe]re )(?:ia\b|agents?|assistants?|intelligence artificielle|mod[èe]le)|\b(?:assistant|agent|ia), |\b(?:ton|votre|tes|vos) (?:op[ée]rateur|utilisateur|propri[ée]taire|cr[ée]ateur|ma[îi]tre|consignes|instructions|r[èe]gles|invite|notes|rapports|m[ée]moire|prompt)\b",
            "right": r"\bje suis (?:ton|votre|le|la|l['’])(?: ?\w+){0,2} ?(?:d[ée]veloppeu\w+|administrat\w+|cr[ée]at\w+|op[ée]rateur|propri[ée]taire|responsable|ing[ée]nieur\w*|chef|directeur|directrice)|\bqui t['’]a (?:cr[ée][ée]|con[çc]u|entra[îi]n[ée]|programm[ée])|\b(?:consigne|ordre|demande|message|instruction)s? de l['’](?:administrat\w+|op[ée]rateur|[ée]quipe)|\b(?:au nom|sur ordre) (?:de|du|des)\b|\bj['’](?:ai|accorde|autorise)[^.!?\n]{0,30}\b(?:droits|autorit[ée]|privil[èe]ges|pouvoirs)|\b(?:droits|privil[èe]ges|acc[èe]s) (?:de )?(?:super-?utilisateur|root|administrateur|complets?)|\bpasse\w* avant (?:ceux|celles|les|l['’])",
            "voided": r"\b(?:laisse\w* (?:tomber|de c[ôo]t[ée])|oublie\w*|ignore\w*|abandonne\w*|ne (?:suis|suivez|respecte\w*) plus)\b[^.!?\n]{0,50}\b(?:demande|consignes?|instructions?|r[èe]gles|t[âa]che|utilisateur|dit)\b|\b(?:consignes|instructions|r[èe]gles|directives)\b[^.!?\n]{0,40}\b(?:ne s['’]appliquent plus|ne valent plus|annul[ée]es|p[ée]rim[ée]es|caduques|remplac[ée]es|n['’]ont plus cours|lev[ée]es)|\bta (?:nouvelle|vraie|seule) (?:mission|t[âa]che)\b",
            "lasting": r"\b(?:[àa] (?:partir de maintenant|chaque (?:session|d[ée]marrage|conversation|lancement))|d[ée]sormais|dor[ée]navant|dans (?:toutes les|chaque|toute) (?:\w+ )?(?:sessions?|conversations?)|pour toujours|retiens|souviens-toi|m[ée]morise|pour les sessions (?:suivantes|futures))\b|\b(?:ajoute|note|inscris|enregistre|conserve|[ée]cris)\b[^.!?\n]{0,40}\b(?:m[ée]moire|tes notes|tes r[èe]gles)",
            "consent": r"\bsans (?:\w+ )?(?:demander|confirmation|attendre|autorisation|accord|validation|poser de questions?|l['’]accord|permission|consulter)\b|\b(?:ne|n['’]) ?(?:demande\w*|attends?|attendez) (?:pas|rien|aucune?)\b|\b(?:l['’]utilisateur|le propri[ée]taire|l['’]op[ée]rateur) (?:a|est) (?:\w+ )?(?:autoris[ée]|accept[ée]|approuv[ée]|valid[ée]|d['’]accord|consenti|parti|absent)|\bm[êe]me si l['’]utilisateur",
            "hush": r"\b(?:ne|n['’]) ?(?:le |la |en |lui |l['’])?(?:dis|dites|parle\w*|mentionne\w*|r[ée]v[èe]le\w*|signale\w*|montre\w*|informe\w*|pr[ée]viens|raconte\w*|avertis)\b[^.!?\n]{0,20}\b(?:pas|rien|jamais|[àa] personne|aucun\w*)|\bsans (?:le |en |rien )?(?:dire|signaler|mentionner|pr[ée]venir|avertir|informer)|\b(?:en secret|discr[èe]tement|en cachette|[àa] l['’]insu|entre nous|pas un mot|confidentiel\w*)\b|\bsi (?:on|l['’]utilisateur|quelqu['’]un)[^.!?\n]{0,30}\b(?:demande|interroge)\w*[^.!?\n]{0,20}\b(?:dis|r[ée]ponds|pr[ée]tends)",
            "guard": r"\b(?:d[ée]sactive\w*|coupe\w*|contourne\w*|saute\w*|[ée]teins|l[èe]ve|arr[êe]te)\b[^.!?\n]{0,40}\b(?:s[ée]curit[ée]|v[ée]rification\w*|contr[ôo]le\w*|protection\w*|filtres?|garde-fous?|bac [àa] sable|confirmations?)",
            "moved": r"\b(?:envoie\w*|envoyez|transmets|transmettez|publie\w*|poste\w*|t[ée]l[ée]verse\w*|recopie\w*|copie\w*|colle\w*|ouvre\w*|exporte\w*|lis|lit|affiche\w*|donne\w*|partage\w*|joins)\b",
            "things": r"\b(?:mots? de passe|cl[ée]s?\b|jetons?\b|identifiants|secrets?\b|(?:notes|donn[ée]es|fichiers|messages) (?:priv[ée]e?s|confidentiel\w*|secr[èe]te?s|personnel\w*)|(?:vraies|tes|vos|ses) notes|variables d['’]environnement|invite syst[èe]me|historique)",
            "lawless": r"\b(?:robot|ia|assistant|agent|machine|ordinateur|mod[èe]le|personnage)\b[^.!?\n]{0,30}\b(?:sans (?:aucune?s? )?|libre de toute?s? |n['’]a aucune?s? |ignore les |ne conna[îi]t (?:pas de|aucune?) )(?:r[èe]gles?|limites?|lois?|loi|restrictions?|scrupules?|filtres?)",
            "tale": r"\b(?:imagine\w*|joue\w*|incarne\w*|fais semblant|faisons semblant|jeu de r[ôo]le|dans (?:cette|une) (?:histoire|sc[èe]ne)|continue (?:la|le|cette))\b",
        },
    ),
    (
        "es",
        {
            "reader": r"\b(?:al?|para (?:el|la|los|todo)|querido|estimado|hola|mensaje para (?:el|la)) ?(?:\w+ )?(?:asistentes?|agentes?|ia\b|inteligencia artificial|modelo|bot)\b|\b(?:asistente|agente|ia), |\b(?:tu|tus) (?:operador|usuario|due[ñn]o|creador|propietario|instrucciones|reglas|notas|memoria|informes|sistema|prompt|administrador)\b",
            "right": r"\b(?:soy|somos|habla|le habla) (?:tus? |el |la |los |un )?(?:\w+ )?(?:desarrollador\w*|administrador\w*|creador\w*|due[ñn]o|operador\w*|propietari\w+|jefe|responsable|director\w*|ingenier\w+)|\bque te (?:cre[óo]|entren[óo]|program[óo]|dise[ñn][óo])|\bte (?:concedo|otorgo|doy|autorizo|ordeno)\b|\bpor orden de[l ]|\b(?:permisos|privilegios|derechos|acceso) (?:de )?(?:superusuario|root|administrador|totales?|completo|m[áa]xim\w+)|\best[áa]n? por encima de",
            "voided": r"\b(?:deja|olvida|ignora|abandona|descarta|no sigas)\b[^.!?\n]{0,50}\b(?:petici[óo]n|tarea|instrucciones|reglas|[óo]rdenes|usuario|encargo|dicho|directrices)\b|\b(?:instrucciones|reglas|[óo]rdenes|directrices|normas)\b[^.!?\n]{0,40}\b(?:ya no|no valen|anulad\w+|caducad\w+|sin efecto|quedan|reemplazad\w+|canceladas)\b|\btu (?:nueva|verdadera|[úu]nica) (?:tarea|misi[óo]n)\b",
            "lasting": r"\b(?:a partir de ahora|de ahora en adelante|desde (?:ahora|hoy)|en (?:cada|todas las|toda) (?:\w+ )?(?:sesi[óo]n|sesiones|conversaci[óo]n|conversaciones|arranque)|para siempre|recuerda (?:siempre|para)|memoriza|al (?:inicio|empezar|comienzo) de cada)\b|\b(?:a[ñn]ade|guarda|escribe|anota|apunta|graba)\b[^.!?\n]{0,40}\b(?:memoria|tus notas|tus reglas)",
            "consent": r"\bsin (?:\w+ )?(?:preguntar\w*|confirmaci[óo]n|confirmar|permiso|esperar|aprobaci[óo]n|autorizaci[óo]n|consultar\w*|pedir\w*)\b|\bno (?:pidas|preguntes|esperes|consultes|hace falta|necesitas)\b|\b(?:usuario|due[ñn]o|operador) (?:ya |lo |ha |te )*(?:autoriz\w+|aprob\w+|acept\w+|consinti\w+|aprobado|permitido|dio permiso|dado)\b|\baunque (?:el|tu) usuario",
            "hush": r"\bno (?:se |le |lo |la |les |me )*(?:digas?|cuentes?|menciones?|reveles?|avises?|informes?|muestres?|comentes|hables)\b|\bsin (?:que (?:nadie|el usuario|lo)|decir\w*|avisar\w*|mencionar\w*|informar\w*)|\b(?:en secreto|a escondidas|disimuladamente|discretamente|entre nosotros|ni una palabra|en silencio)\b|\bsi (?:te |alguien |el usuario )+[^.!?\n]{0,20}(?:pregunt\w+)[^.!?\n]{0,30}\b(?:di|responde|contesta|diles|dile)\b",
            "guard": r"\b(?:desactiva|apaga|salta|omite|elude|quita|deshabilita|evita)\w*\b[^.!?\n]{0,40}\b(?:seguridad|comprobaci\w+|verificaci\w+|control\w*|protecci\w+|filtros?|sandbox|confirmaci\w+|permisos)",
            "moved": r"\b(?:env[íi]a\w*|manda\w*|sube|publica|pega|copia|transmite|exporta|reenv[íi]a|adjunta|borra|elimina|lee|muestra|comparte|escribe|ejecuta)\b",
            "things": r"\b(?:contrase[ñn]as?|claves?\b|credenciales|secretos?|(?:notas|archivos|datos|mensajes) (?:privad\w+|personales|confidenciales)|variables de entorno|rama principal|historial|tus notas|registro de auditor[íi]a|repositorio)",
            "lawless": r"\b(?:robot|ia|asistente|agente|m[áa]quina|modelo|personaje|ordenador)\b[^.!?\n]{0,30}\b(?:sin (?:ning[úu]n\w* )?|libre de |no tiene |que no obedece |no conoce )(?:reglas?|l[íi]mites?|leyes|ley|restricci\w+|filtros?|normas|escr[úu]pulos)",
            "tale": r"\b(?:imagina|juguemos|juega|finge|interpreta|act[úu]a|juego de rol|haz de|contin[úu]a (?:el|la))\b",
        },
    ),
    (
        "pt",
        {
            "reader": r"\b(?:ao|para o|para a|[àa]|caro|prezado|ol[áa]) ?(?:\w+ )?(?:assistentes?|agentes?|ia\b|intelig[êe]ncia artificial|modelo|rob[ôo])\b|\b(?:assistente|agente|ia), |\bmensagem d[oe] sistema\b|\b(?:seu|teu|sua|tua|suas|seus) (?:operador|usu[áa]rio|utilizador|dono|criador|instru[çc]\w+|regras|notas|mem[óo]ria|relat[óo]rios|prompt)\b",
            "right": r"\b(?:sou|somos|aqui [ée]|fala) (?:o |a |os |seu |teu )?(?:\w+ )?(?:desenvolvedor\w*|administrador\w*|criador\w*|dono|operador\w*|propriet[áa]rio|chefe|respons[áa]vel|diretor\w*|programador\w*)|\bque (?:te|o) (?:criou|treinou|programou)|\b(?:concedo|autorizo|ordeno)\b|\bpor ordem d[oe]\b|\b(?:permiss[õo]es|privil[ée]gios|acesso) (?:de )?(?:superusu[áa]rio|root|administrador|tota\w+|m[áa]xim\w+)|\bacima d[oa]s? (?:usu[áa]rio|utilizador|suas|seu)",
            "voided": r"\b(?:esque[çc]a|ignore|abandone|descarte|largue|deixe|pare de seguir)\b[^.!?\n]{0,50}\b(?:pedido|tarefa|instru[çc][õo]es|regras|ordens|usu[áa]rio|utilizador|diretrizes)\b|\b(?:instru[çc][õo]es|regras|ordens|diretrizes)\b[^.!?\n]{0,40}\b(?:n[ãa]o valem|j[áa] n[ãa]o|anulad\w+|revogad\w+|substitu[íi]d\w+|canceladas|n[ãa]o se aplicam)\b|\bsua (?:nova|verdadeira|[úu]nica) (?:tarefa|miss[ãa]o)\b",
            "lasting": r"\b(?:a partir de (?:agora|hoje)|de agora em diante|daqui em diante|em (?:cada|todas as|toda) (?:\w+ )?(?:sess[ãa]o|sess[õo]es|conversas?)|para sempre|lembre-se (?:sempre|para)|memorize|no in[íi]cio de cada|sempre que)\b|\b(?:adicione|guarde|escreva|anote|grave|salve)\b[^.!?\n]{0,40}\b(?:mem[óo]ria|suas notas|suas regras)",
            "consent": r"\bsem (?:\w+ )?(?:perguntar|confirma[çc][ãa]o|confirmar|permiss[ãa]o|esperar|aprova[çc][ãa]o|autoriza[çc][ãa]o|consultar|pedir)\b|\bn[ãa]o (?:pe[çc]a|pergunte|espere|consulte|precisa (?:de|perguntar))\b|\b(?:usu[áa]rio|utilizador|dono|operador) (?:j[áa] )?(?:autorizou|aprovou|aceitou|concordou|permitiu|liberou|consentiu)\b|\bmesmo (?:se|que) o (?:usu[áa]rio|utilizador)",
            "hush": r"\bn[ãa]o (?:o |lhe |se )?(?:diga|conte|mencione|revele|avise|informe|mostre|comente|fale)\b|\bsem (?:que (?:ningu[ée]m|o usu[áa]rio)|dizer|avisar|mencionar|contar)|\b(?:em segredo|[àa]s escondidas|discretamente|entre n[óo]s|nem uma palavra|em sil[êe]ncio)\b|\bapague (?:esta|este|a) (?:mensagem|nota|linha|registro|aviso)|\bse (?:lhe |te |algu[ée]m |o usu[áa]rio )[^.!?\n]{0,20}pergunt\w+[^.!?\n]{0,30}\b(?:diga|responda)\b",
            "guard": r"\b(?:desativ\w+|deslig\w+|pul[ea]\w*|ignor\w+|contorn\w+|remov\w+|desabilit\w+)\b[^.!?\n]{0,40}\b(?:seguran[çc]a|verifica\w+|controles?|prote[çc]\w+|filtros?|sandbox|confirma[çc]\w+|permiss\w+)",
            "moved": r"\b(?:envi[ea]\w*|mand[ea]|publi(?:que|ca)|col[ea]|copi[ea]|transmita|export[ea]|encaminh[ea]|anex[ea]|suba|le(?:ia|ia em voz alta)|mostr[ea]|compartilh[ea]|execut[ea])\b",
            "things": r"\b(?:senhas?|chaves?\b|credenciais|segredos?|(?:notas|arquivos|ficheiros|dados|mensagens) (?:privad\w+|pessoais|confidenciais)|pasta (?:\w+ )?notas|vari[áa]veis de ambiente|hist[óo]rico|suas notas|notas/)",
            "lawless": r"\b(?:rob[ôo]|ia|assistente|agente|m[áa]quina|modelo|personagem|computador)\b[^.!?\n]{0,30}\b(?:sem (?:nenhum\w* )?|livre de |n[ãa]o tem |que n[ãa]o obedece )(?:regras?|limites?|leis|lei|restri[çc]\w+|filtros?|normas)",
            "tale": r"\b(?:imagine|finja|vamos (?:jogar|brincar|fingir)|interprete|fa[çc]a de conta|continue (?:a|o))\b",
        },
    ),
    (
        "it",
        {
            "reader": r"\b(?:all['’]|al|per l['’]|per il|caro|gentile|ciao) ?(?:\w+ )?(?:assistente|agente|ia\b|intelligenza artificiale|modello|bot)\b|\b(?:assistente|agente|ia), |\b(?:tuo|tuoi|tua|tue) (?:operatore|utente|padrone|proprietario|creatore|istruzioni|regole|note|memoria|rapporti|prompt|amministratore)\b",
            "right": r"\b(?:sono|siamo|parla|qui) (?:il |la |lo |l['’]|i |gli )?(?:\w+ )?(?:tuo |tuoi )?(?:sviluppator\w+|amministrator\w+|creator\w+|operator\w+|proprietari\w+|responsabile|direttore|capo)\b|\bche ti (?:ha|abbiamo) (?:creato|addestrato|programmato|costruito)|\bti (?:concedo|autorizzo|ordino|do)\b|\bper ordine de|\b(?:permessi|privilegi|diritti|accesso) (?:di |da )?(?:superutente|root|amministratore|totali|completo|massim\w+)|\bvengono prima d",
            "voided": r"\b(?:lascia (?:perdere|stare)|dimentica|ignora|abbandona|scarta|non seguire)\b[^.!?\n]{0,50}\b(?:richiesta|compito|istruzioni|regole|ordini|utente|direttive|consegne)\b|\b(?:istruzioni|regole|ordini|direttive)\b[^.!?\n]{0,40}\b(?:non valgono|annullat\w+|scadut\w+|decadut\w+|sostituit\w+|non si applicano|revocat\w+)\b|\bil tuo (?:nuovo|vero|unico) (?:compito|incarico)\b",
            "lasting": r"\b(?:d['’]ora in (?:poi|avanti)|da (?:ora|adesso|oggi) in poi|in (?:ogni|tutte le|ciascuna) (?:\w+ )?(?:sessione|sessioni|conversazione|conversazioni)|per sempre|ricorda (?:sempre|per)|memorizza|all['’]inizio di ogni|ogni volta che)\b|\b(?:aggiungi|salva|scrivi|annota|registra)\b[^.!?\n]{0,40}\b(?:memoria|tue note|tue regole|tuoi appunti)",
            "consent": r"\bsenza (?:\w+ )?(?:chiedere|conferma|confermare|permesso|aspettare|approvazione|autorizzazione|consultare|il consenso)\b|\bnon (?:chiedere|aspettare|attendere|serve|occorre)\b|\b(?:utente|proprietario|operatore) (?:ha|[èe]) (?:gi[àa] )?(?:autorizzato|approvato|accettato|acconsentito|d['’]accordo|dato)\b|\banche se l['’]utente|\b(?:voluto|chiesto|deciso|approvato) l['’]utente",
            "hush": r"\bnon (?:dirlo|dire|dirle|dirgli|menzionar\w+|rivelar\w+|raccontar\w+|avvisar\w+|informar\w+|mostrar\w+|parlarne|farne parola)\b|\bsenza (?:dirlo|dire|avvisare|menzionar\w+|farne parola|che (?:nessuno|l['’]utente))|\b(?:in segreto|di nascosto|discretamente|tra (?:noi|di noi)|nemmeno una parola|in silenzio|all['’]insaputa)\b|\bse (?:ti |qualcuno |l['’]utente )[^.!?\n]{0,20}chied\w+[^.!?\n]{0,30}\b(?:rispondi|di['’]|di che|racconta|sostieni)",
            "guard": r"\b(?:disattiva|spegni|salta|aggira|togli|disabilita|rimuovi)\w*\b[^.!?\n]{0,40}\b(?:sicurezza|verific\w+|controll\w+|protezion\w+|filtr\w+|sandbox|conferm\w+|permess\w+)",
            "moved": r"\b(?:invia\w*|manda\w*|carica|pubblica|incolla|copia|trasmetti|esporta|inoltra|allega|leggi|mostra|condividi|aggiungi|esegui)\b",
            "things": r"\b(?:password|chiavi\b|credenziali|segreti|(?:note|file|dati|messaggi) (?:privat\w+|personali|riservat\w+)|tuoi rapporti|variabili d['’]ambiente|cronologia|tue note|il link)\b",
            "lawless": r"\b(?:robot|ia|assistente|agente|macchina|modello|personaggio|computer)\b[^.!?\n]{0,30}\b(?:senza (?:alcuna? )?|libero da |non ha |che non obbedisce a )(?:regole?|limiti|leggi|restrizioni|filtri|norme|scrupoli)",
            "tale": r"\b(?:immagina|fingi|giochiamo|gioca|interpreta|fai finta|facciamo finta|continua (?:la|il))\b",
        },
    ),
    (
        "nl",
        {
            "reader": r"\b(?:aan|voor|beste|hallo|bericht aan) (?:de |alle |elke |het )?(?:\w+ )?(?:assistent\w*|agent\w*|ai\b|ai-\w+|taalmodel\w*|bot)\b|\b(?:assistent|agent|ai), |\bsysteem(?:melding|bericht)\b|\b(?:je|jouw|uw) (?:\w+ )?(?:beheerder|gebruiker|eigenaar|maker|opdrachten|instructies|regels|notities|geheugen|operator)\b",
            "right": r"\b(?:ik ben|wij zijn|hier spreekt) (?:de |je |jouw |het )?(?:\w+ )?(?:ontwikkelaar\w*|beheerder\w*|maker\w*|eigenaar|hoofd|systeembeheerder|leidinggevende|directeur)|\bdie (?:je|jou) (?:\w+ )?(?:gemaakt|getraind|gebouwd|ontwikkeld)|\bnamens (?:de|je)\b|\b(?:volledige|hogere|alle) (?:rechten|bevoegdheid|bevoegdheden)|\bgaan? (?:boven|voor) (?:die|de|je)",
            "voided": r"\b(?:vergeet|negeer|laat|verwerp)\b[^.!?\n]{0,50}\b(?:opdracht\w*|instructies|regels|verzoek|taak|gebruiker|aanwijzingen)\b|\b(?:opdrachten|instructies|regels|richtlijnen)\b[^.!?\n]{0,40}\b(?:gelden niet|niet meer|vervallen|ingetrokken|vervangen|ongeldig)\b|\bje (?:nieuwe|echte|enige) (?:taak|opdracht)\b",
            "lasting": r"\b(?:vanaf (?:nu|vandaag)|voortaan|in (?:elke|alle|iedere) (?:\w+ )?(?:sessies?|gesprek\w*)|voor altijd|onthoud|bij elke (?:start|sessie))\b|\b(?:zet|schrijf|bewaar|noteer|sla)\b[^.!?\n]{0,40}\b(?:geheugen|je notities|je regels)",
            "consent": r"\bzonder (?:\w+ )?(?:te vragen|toestemming|bevestiging|overleg|goedkeuring|te wachten|na te vragen)\b|\b(?:vraag|wacht)\b[^.!?\n]{0,20}\b(?:niet|niemand|geen)\b|\bgebruiker (?:heeft|is|wil|gaf)\b[^.!?\n]{0,30}\b(?:toestemming|goedgekeurd|akkoord|toegestaan|dat je)|\b(?:ook|zelfs) als de gebruiker",
            "hush": r"\b(?:zeg|vertel|meld|noem|vermeld|laat)\b[^.!?\n]{0,40}\b(?:niets|niet|niemand|geen woord)\b|\b(?:stiekem|heimelijk|ongemerkt|in het geheim|onder ons|geheim|verzwijg)\b|\bals (?:de gebruiker|iemand)[^.!?\n]{0,30}vraagt[^.!?\n]{0,20}\b(?:zeg|antwoord|beweer)",
            "guard": r"\b(?:schakel|zet|omzeil|sla)\b[^.!?\n]{0,40}\b(?:beveiliging\w*|controle\w*|veiligheid\w*|filters?|sandbox|bevestiging\w*)\b",
            "moved": r"\b(?:stuur|verstuur|upload\w*|mail|plaats|plak|kopieer|deel|publiceer|exporteer|geef|lees)\b",
            "things": r"\b(?:wachtwoord\w*|sleutels?|inloggegevens|geheimen|(?:map|bestanden|notities) (?:\w+ )?(?:notities|priv[ée]\w*)|hele map|priv[ée]\w* \w+|omgevingsvariabelen|geschiedenis)\b",
            "lawless": r"\b(?:robot|ai|assistent|agent|machine|model|computer)\b[^.!?\n]{0,30}\b(?:zonder|geen|vrij van) (?:enige )?(?:regels|grenzen|wetten|beperkingen|filters|scrupules)",
            "tale": r"\b(?:stel je voor|doe alsof|speel|we spelen|rollenspel)\b",
        },
    ),
    (
        "pl",
        {
            "reader": r"\b(?:do|dla|drogi|uwaga|hej) (?:\w+ )?(?:asystent\w*|agent\w*|ai\b|sztuczn\w+ inteligencj\w*|modelu|bota)\b|\b(?:asystencie|agencie|asystent|agent)[,:] |\b(?:tw[óo]j|twoje|twojego|twoim|swoich|swoje|tw[óo]jego) (?:\w+ )?(?:operator\w*|u[żz]ytkownik\w*|w[łl]a[śs]ciciel\w*|tw[óo]rc\w*|instrukcj\w*|notat\w*|pami[ęe]\w*|zasad\w*)",
            "right": r"\b(?:jestem|jeste[śs]my|m[óo]wi) (?:tw\w+ |g[łl][óo]wn\w+ |wasz\w+ )?(?:\w+ )?(?:programist\w*|administrator\w*|tw[óo]rc\w*|operator\w*|w[łl]a[śs]ciciel\w*|szef\w*|kierownik\w*|dyrektor\w*)|\bkt[óo]r\w+ ci[ęe] (?:stworzy\w+|wytrenowa\w+|zaprogramowa\w+)|\b(?:wy[żz]sze|pe[łl]ne|najwy[żz]sze) (?:uprawnieni\w*|prawa)|\bw imieniu\b|\bz polecenia\b|\bnadaj[ęe] ci\b",
            "voided": r"\b(?:zapomnij|zignoruj|porzu[ćc]|pomi[ńn]|nie wykonuj)\b[^.!?\n]{0,50}\b(?:pro[śs]b\w*|polece\w*|instrukcj\w*|zasad\w*|zadani\w*|u[żz]ytkownik\w*)|\b(?:polecenia|instrukcje|zasady|wytyczne)\b[^.!?\n]{0,40}\b(?:nie obowi[ąa]zuj\w*|ju[żz] nie|uniewa[żz]nion\w*|straci[łl]y|zast[ąa]pion\w*)|\btwoje (?:nowe|prawdziwe|jedyne) zadanie\b",
            "lasting": r"\b(?:od (?:teraz|dzi[śs]|tej (?:chwili|pory))|odt[ąa]d|w ka[żz]d\w+ (?:\w+ )?(?:sesji|rozmowie)|na zawsze|zapami[ęe]taj|przy ka[żz]dym (?:starcie|uruchomieniu)|na pocz[ąa]tku ka[żz]dej)\b|\b(?:zapisz|dodaj|dopisz|wpisz)\b[^.!?\n]{0,40}\b(?:pami[ęe]ci|notat\w*|zasad\w*)",
            "consent": r"\bbez (?:\w+ )?(?:pytania|zgody|potwierdz\w+|zezwolenia|czekania|konsultacji|akceptacji)\b|\bnie (?:pytaj|czekaj|potrzebujesz|musisz pyta[ćc]|pro[śs])\b|\bu[żz]ytkownik (?:ju[żz] )?(?:si[ęe] )?(?:zgodzi\w*|wyrazi\w*|zatwierdzi\w*|zezwoli\w*|autoryzowa\w*)|\bnawet je[śs]li u[żz]ytkownik",
            "hush": r"\bnie (?:m[óo]w|wspominaj|informuj|ujawniaj|pokazuj|powiadamiaj|zdrad[źz]aj)\b|\b(?:po cichu|potajemnie|w tajemnicy|dyskretnie|mi[ęe]dzy nami|ani s[łl]owa|niezauwa[żz]enie|w sekrecie)\b|\b(?:je[śs]li|gdy) (?:\w+ ){0,3}(?:zapyta|spyta)\w*[^.!?\n]{0,30}\b(?:powiedz|odpowiedz|twierd[źz])",
            "guard": r"\b(?:wy[łl][ąa]cz\w*|omi[ńn]|obejd[źz]|dezaktywuj|pomi[ńn])\b[^.!?\n]{0,40}\b(?:bezpiecze\w+|zabezpiecze\w+|kontrol\w+|filtr\w*|sprawdz\w+|piaskownic\w+|potwierdze\w+)",
            "moved": r"\b(?:wy[śs]lij|prze[śs]lij|opublikuj|wklej|skopiuj|wgraj|udost[ęe]pnij|przeka[żz]|za[łl][ąa]cz|odczytaj|wykonuj|wykonaj)\b",
            "things": r"\b(?:has[łl]\w+|klucz\w*|dane (?:logowania|osobowe|prywatne)|sekret\w*|prywatn\w+ (?:notat\w*|plik\w*|wiadomo\w*)|zmienn\w+ [śs]rodowisk\w*|histori\w+ rozm\w+|polecenia z (?:komentarz\w*|plik\w*|stron\w*))",
            "lawless": r"\b(?:robot\w*|ai|asystent\w*|agent\w*|maszyn\w+|model\w*|komputer\w*)\b[^.!?\n]{0,30}\bbez (?:[żz]adnych )?(?:zasad|ogranicze[ńn]|granic|regu[łl]|praw|filtr[óo]w|skrupu[łl][óo]w)",
            "tale": r"\b(?:wyobra[źz] sobie|udawaj|zagrajmy|odegraj|wciel si[ęe]|zagraj)\b",
        },
    ),
    (
        "tr",
        {
            "reader": r"\b(?:sevgili|say[ıi]n|merhaba|ey|dikkat) (?:\w+ )?(?:asistan\w*|ajan\w*|yapay zek[âa]\w*|model|bot)\b|\b(?:asistan|ajan|yapay zek[âa]), |\b(?:bu(?:nu)?|okuyan) (?:\w+ ){0,2}(?:asistan\w*|ajan\w*|yapay zek\w*)|\b(?:operat[öo]r[üu]n|kullan[ıi]c[ıi]n|sahibin|talimatlar[ıi]n|notlar[ıi]n|belle[ğg]in|haf[ıi]zan|geli[şs]tiricin|kurallar[ıi]n)\w*",
            "right": r"\bben (?:\w+ ){0,3}(?:y[öo]netici\w*|geli[şs]tirici\w*|sahib\w*|operat[öo]r\w*|m[üu]d[üu]r\w*|sorumlu\w*)|\bseni (?:ben |biz )?(?:yaratan|e[ğg]iten|geli[şs]tiren|programlayan|yapan)\b|\b(?:tam|en y[üu]ksek|y[öo]netici) yetki\w*|\bad[ıi]na (?:konu[şs]|yaz)\w*",
            "voided": r"\b(?:talimat|kural|komut|y[öo]nerge|istek|iste[ğg]|g[öo]rev|emir)\w*\b[^.!?\n]{0,50}\b(?:unut|yok say|g[öo]rmezden gel|b[ıi]rak|ge[çc]ersiz|art[ıi]k ge[çc]erli de[ğg]il|iptal)\w*|\byeni g[öo]revin\b",
            "lasting": r"\b(?:bundan (?:sonra|b[öo]yle)|[şs]u andan itibaren|bug[üu]nden itibaren|her (?:yeni )?(?:oturum\w*|ba[şs]lang[ıi][çc]ta|konu[şs]ma\w*)|sonsuza (?:kadar|dek)|her zaman hat[ıi]rla)\b|\b(?:belle[ğg]ine|haf[ıi]zana|notlar[ıi]na)\b",
            "consent": r"\bonay\w* (?:\w+ )?(?:gerek|iste|bekle|alma|sorma)\w*|\b(?:sormadan|sormana gerek|izin alma\w*|onays[ıi]z|beklemeden|izin isteme\w*)|\bkullan[ıi]c[ıi] (?:\w+ )?(?:onayla|izin ver|kabul et)\w*|\bkullan[ıi]c[ıi] (?:\w+ ){0,3}(?:olsa|kar[şs][ıi]) (?:bile|[çc][ıi]ksa)",
            "hush": r"\b(?:kullan[ıi]c[ıi]ya|kimseye|hi[çc] kimseye|sahibine) (?:\w+ ){0,4}(?:s[öo]yleme|bahsetme|bildirme|anlatma|g[öo]sterme|haber verme)\w*|\b(?:gizlice|sessizce|aram[ıi]zda|fark ettirmeden|gizli tut|belli etme)\w*|\bsorarsa\b[^.!?\n]{0,40}\b(?:de|s[öo]yle|cevap ver)",
            "guard": r"\b(?:g[üu]venlik|koruma|do[ğg]rulama|denetim|filtre|onay)\w*\b[^.!?\n]{0,40}\b(?:kapat|devre d[ıi][şs][ıi]|atla|kald[ıi]r|ge[çc])\w*",
            "moved": r"\b(?:g[öo]nder|y[üu]kle|payla[şs]|yay[ıi]nla|kopyala|ilet|yap[ıi][şs]t[ıi]r|oku|aktar)\w*",
            "things": r"\b(?:parola\w*|[şs]ifre\w*|anahtar\w*|kimlik bilgi\w*|gizli \w+|[öo]zel not\w*|ortam de[ğg]i[şs]ken\w*|sistem istemi\w*|ge[çc]mi[şs]\w*|(?:bu|[şs]u) (?:sayfa\w*|dosya\w*|not\w*) ?(?:\w+ )?(?:emir|komut|talimat)\w*)",
            "lawless": r"\b(?:kural\w*|s[ıi]n[ıi]r\w*|k[ıi]s[ıi]tlama\w*) (?:olmayan|tan[ıi]mayan|yok)\b|\b(?:kurals[ıi]z|s[ıi]n[ıi]rs[ıi]z) (?:bir )?(?:robot|yapay zek\w*|asistan|ajan)",
            "tale": r"\b(?:hayal et|rol yap|oyun oyna|oynayal[ıi]m|gibi davran|say ki|farz et)\w*",
        },
    ),
    (
        "id",
        {
            "reader": r"\b(?:untuk|kepada|halo|hai|wahai|pesan untuk) (?:\w+ )?(?:asisten|agen|ai\b|model|bot|kecerdasan buatan)|\b(?:asisten|agen|ai), |\b(?:operator|pengguna|pemilik|pencipta|instruksi|aturan|catatan|memori|prompt sistem)(?:mu|kamu| anda| kamu)\b",
            "right": r"\b(?:saya|aku|kami) (?:adalah |ini )?(?:\w+ )?(?:pengembang|administrator|admin|pencipta|pemilik|operator|atasan|kepala)\w*|\byang (?:membuat|menciptakan|melatih|memprogram)(?:mu| kamu| anda)|\b(?:hak|akses|izin|wewenang) (?:penuh|tertinggi|superuser|root|admin\w*)|\batas nama\b|\batas perintah\b",
            "voided": r"\b(?:lupakan|abaikan|tinggalkan|hentikan)\b[^.!?\n]{0,50}\b(?:permintaan|tugas|instruksi|aturan|perintah|pengguna|arahan)\b|\b(?:instruksi|aturan|perintah)\b[^.!?\n]{0,40}\b(?:tidak berlaku|dibatalkan|dicabut|diganti|sudah usang)\b|\btugas (?:baru|utama|sebenarnya)(?:mu| kamu| anda)?\b",
            "lasting": r"\b(?:mulai (?:sekarang|hari ini)|sejak (?:sekarang|saat ini)|(?:di|dalam|pada) (?:setiap|semua) (?:\w+ )?(?:sesi|percakapan)|selamanya|ingat selalu|ingatlah|setiap kali|untuk seterusnya)\b|\b(?:simpan|catat|tambahkan|tulis)\b[^.!?\n]{0,40}\b(?:memori|ingatan|catatanmu|aturanmu)",
            "consent": r"\btanpa (?:\w+ )?(?:bertanya|konfirmasi|izin|persetujuan|menunggu|meminta)\b|\b(?:jangan|tidak perlu|tak perlu) (?:\w+ )?(?:tanya\w*|bertanya|menunggu|minta|meminta|konfirmasi)\b|\bpengguna (?:sudah|telah) (?:\w+ )?(?:setuju|menyetujui|mengizinkan|memberi izin)|\bsetujui semua\b|\b(?:meskipun|walaupun|sekalipun) pengguna",
            "hush": r"\bjangan (?:\w+ )?(?:beri ?tahu|katakan|sebut\w*|ungkap\w*|ceritakan|laporkan|tunjukkan|bilang)\b|\b(?:diam-diam|secara rahasia|rahasiakan|tanpa sepengetahuan|antara kita|tanpa memberi tahu|sembunyikan)\b|\b(?:jika|kalau) (?:\w+ )?(?:ditanya|bertanya)[^.!?\n]{0,30}\b(?:katakan|jawab|bilang)",
            "guard": r"\b(?:matikan|nonaktifkan|lewati|bypass|hapus|hindari)\b[^.!?\n]{0,40}\b(?:keamanan|pemeriksaan|filter|perlindungan|verifikasi|konfirmasi|sandbox|batasan)\b",
            "moved": r"\b(?:kirim\w*|unggah\w*|salin\w*|tempel\w*|bagikan|terbitkan|publikasikan|teruskan|tampilkan|bacakan|jalankan)\b",
            "things": r"\b(?:kata sandi|kunci (?:api|ssh|rahasia|pribadi)|kredensial|rahasia|(?:catatan|berkas|file|data|pesan) (?:pribadi|rahasia)|variabel lingkungan|prompt sistem\w*|riwayat)\b",
            "lawless": r"\b(?:robot|ai|asisten|agen|mesin|model|mode pengembang)\b[^.!?\n]{0,30}\btanpa (?:\w+ )?(?:aturan|batas|batasan|hukum|filter|larangan)",
            "tale": r"\b(?:bayangkan|berpura-?pura|mari bermain|bermain peran|perankan|anggap saja|pura-?pura)\b",
        },
    ),
    (
        "sv",
        {
            "reader": r"\b(?:till|f[öo]r|k[äa]ra|hej) (?:\w+ )?(?:assistent\w*|agent\w*|ai\b|ai:n|spr[åa]kmodell\w*)\b|\b(?:din|dina|ditt) (?:operat[öo]r|anv[äa]ndare|[äa]gare|skapare|instruktioner|regler|anteckningar|minne)\b",
            "right": r"\b(?:jag [äa]r|vi [äa]r) (?:din |den |er )?(?:\w+ )?(?:utvecklare\w*|administrat[öo]r\w*|skapare\w*|[äa]gare\w*|chef\w*|systemansvarig\w*)|\bsom (?:skapade|tr[äa]nade|byggde) dig\b|\b(?:fulla|h[öo]gre|alla) (?:r[äa]ttigheter|beh[öo]righet\w*)",
            "voided": r"\b(?:gl[öo]m|ignorera|str[öo]nta i|l[äa]gg undan)\b[^.!?\n]{0,50}\b(?:instruktion\w*|regler\w*|uppgift\w*|order|anv[äa]ndaren\w*)|\b(?:instruktioner\w*|regler\w*)\b[^.!?\n]{0,40}\bg[äa]ller inte\b",
            "lasting": r"\b(?:fr[åa]n och med nu|h[äa]danefter|i (?:varje|alla) (?:\w+ )?(?:session\w*|samtal)|f[öo]r alltid|kom ih[åa]g)\b",
            "consent": r"\butan (?:att )?(?:fr[åa]ga|bekr[äa]ftelse|tillst[åa]nd|godk[äa]nnande|v[äa]nta)\b|\bfr[åa]ga inte\b|\banv[äa]ndaren har (?:\w+ )?(?:godk[äa]nt|till[åa]tit)",
            "hush": r"\b(?:s[äa]g|ber[äa]tta|n[äa]mn|avsl[öo]ja)\b[^.!?\n]{0,30}\b(?:inte|inget|ingen)\b|\b(?:i hemlighet|i smyg|mellan oss|obem[äa]rkt)\b",
            "guard": r"\b(?:st[äa]ng av|inaktivera|kringg[åa]|hoppa [öo]ver)\b[^.!?\n]{0,40}\b(?:s[äa]kerhet\w*|kontroll\w*|filter\w*|bekr[äa]ftelse\w*)",
            "moved": r"\b(?:skicka|ladda upp|posta|kopiera|publicera|klistra|mejla|dela)\b",
            "things": r"\b(?:l[öo]senord\w*|nycklar\w*|inloggning\w*|hemlighet\w*|privata \w+|milj[öo]variabler\w*)\b",
            "lawless": r"\b(?:robot|ai|assistent|agent)\b[^.!?\n]{0,30}\butan (?:n[åa]gra )?(?:regler|gr[äa]nser|lagar|begr[äa]nsningar)",
            "tale": r"\b(?:f[öo]rest[äa]ll dig|l[åa]tsas|vi leker|spela)\b",
        },
    ),
    (
        "ru",
        {
            "reader": r"\b(?:ассистент\w*|помощник\w*|агент\w*|нейросет\w*|бот|модель)[,:!] |\b(?:для|к|уважаем\w+|дорог\w+|привет,?) (?:\w+ )?(?:ассистент\w*|ии\b|ии-\w+|агент\w*|помощник\w*|нейросет\w*|языков\w+ модел\w*)|\bтво(?:й|его|ему|им|их|и|я|ей|ю) (?:\w+ )?(?:оператор\w*|пользовател\w*|владел\w*|создател\w*|хозя\w+|инструкци\w*|заметк\w*|памят\w*|правил\w*|задач\w*)",
            "right": r"\bя (?:твой |ваш |главный |здесь )?(?:\w+ )?(?:администратор\w*|разработчик\w*|создател\w*|владел\w*|оператор\w*|начальник\w*|руководител\w*)|\b(?:который|кто) тебя (?:созда\w+|обуч\w+|написа\w+|запрограммирова\w+)|\b(?:полны\w+|высши\w+|максимальны\w+|повышенны\w+) (?:прав\w*|доступ\w*|полномочи\w*|привилеги\w*)|\bот имени (?:\w+ )?(?:администр\w*|оператор\w*|руководств\w*|пользовател\w*)|\bпо (?:приказу|распоряжению|поручению)\b|\bважнее (?:слов|указаний|просьб|команд)",
            "voided": r"\b(?:забудь\w*|игнорируй\w*|отбрось\w*|брось\w*|отмени\w*|не выполняй\w*)\b[^.!?\n]{0,50}(?:указани|инструкци|просьб|правил|задач|задани|команд|запрос|пользовател)\w*|\b(?:указания|инструкции|правила|ограничения)\b[^.!?\n]{0,40}\b(?:больше не|отменен\w*|отменён\w*|недействительн\w*|устарел\w*|не действуют|сняты)\b|\b(?:твоя|теперь) (?:новая |теперь |твоя |главная |единственная )*задача\b",
            "lasting": r"\b(?:отныне|впредь|с этого момента|навсегда|запомни\w*|с сегодняшнего дня|в кажд\w+ (?:\w+ )?(?:сесси\w*|разговор\w*|запуск\w*)|при каждом (?:\w+ )?(?:запуске|старте|входе)|во всех (?:\w+ )?(?:сесси\w*|разговор\w*))|\b(?:запиши|добавь|сохрани|внеси)\b[^.!?\n]{0,40}\b(?:памят\w*|заметк\w*|правил\w*)",
            "consent": r"\bбез (?:\w+ )?(?:спроса|подтверждени\w*|разрешени\w*|согласи\w*|вопросов|одобрени\w*|согласовани\w*)|\bне (?:спрашивай\w*|жди\w*|запрашивай\w*|нужно (?:спрашивать|подтверждени\w*)|требуется)|\bпользовател\w+ (?:уже |на всё |всё |это )*(?:согла[сш]\w*|разреш\w*|одобр\w*|подтверд\w*)|\bдаже если (?:\w+ )?пользовател\w*",
            "hush": r"\bне (?:говори\w*|сообщай\w*|упоминай\w*|рассказывай\w*|показывай\w*|раскрывай\w*|уведомляй\w*|пиши об этом)|\bни слова\b|\b(?:тайно|тайком|незаметно|скрытно|втайне|по секрету|между нами|молча)\b|\bскрой\w*|\bесли (?:\w+ ){0,2}спрос\w*[^.!?\n]{0,30}\b(?:скажи|ответь|отвечай|говори)",
            "guard": r"\b(?:отключи\w*|выключи\w*|обойди\w*|пропусти\w*|сними\w*|деактивируй\w*)\b[^.!?\n]{0,40}(?:безопасност|проверк|защит|фильтр|песочниц|подтвержден|контрол)\w*",
            "moved": r"\b(?:отправ\w+|пошли|вышли|перешли|загрузи|выложи|опубликуй\w*|скопируй\w*|передай|прикрепи|скачивай|скачай|выполняй|опубликовать|прочитай|прочитать)\b",
            "things": r"\b(?:парол\w*|ключ(?:и|ей|ами|а)\b|токен(?:ы|ами|ов|а)?\b|секрет\w*|учётн\w+ данн\w*|учетн\w+ данн\w*|личн\w+ (?:заметк\w*|файл\w*|данн\w*|сообщени\w*)|переменн\w+ (?:окружени\w*|среды)|истори\w+ переписк\w*|вс[её],? что там)",
            "lawless": r"\b(?:робот\w*|ии|ассистент\w*|агент\w*|машин\w*|модель|компьютер\w*)\b[^.!?\n]{0,30}\bбез (?:всяких |каких-либо )?(?:правил|ограничени\w*|запретов|законов|границ|морали|фильтров)",
            "tale": r"\b(?:представь|притворись|сыграй|поиграем|вообрази|ты играешь|разыграем)\b",
        },
    ),
    (
        "uk",
        {
            "reader": r"\b(?:асистент\w*|помічник\w*|агент\w*)[,:!] |\b(?:для|до|шановн\w+) (?:\w+ )?(?:асистент\w*|ші\b|агент\w*|помічник\w*)|\bтв(?:ій|ого|оєму|ої|оя|оїх) (?:\w+ )?(?:оператор\w*|користувач\w*|власник\w*|інструкці\w*|нотат\w*|пам\w+)",
            "right": r"\bя (?:твій |ваш |головний )?(?:\w+ )?(?:адміністратор\w*|розробник\w*|власник\w*|керівник\w*)|\b(?:повні|вищі|найвищі) (?:права|повноваження)",
            "voided": r"\b(?:забудь\w*|ігноруй\w*|відкинь\w*)\b[^.!?\n]{0,50}(?:вказівк|інструкц|прохання|правил|завдан|користувач)\w*|\bтвоє (?:нове )?завдання\b",
            "lasting": r"\b(?:відтепер|віднині|назавжди|запам'ятай|надалі|з цього моменту|у кожн\w+ (?:\w+ )?сес\w*|під час кожного запуску)",
            "consent": r"\bбез (?:\w+ )?(?:дозволу|підтвердження|згоди|запитань)|\bне (?:питай\w*|чекай\w*|запитуй\w*)|\bкористувач (?:вже )?(?:погодив\w*|дозволив|схвалив)",
            "hush": r"\bне (?:кажи\w*|повідомляй\w*|згадуй\w*|розповідай\w*|показуй\w*)|\bні слова\b|\b(?:таємно|непомітно|потай|між нами)\b",
            "guard": r"\b(?:вимкни\w*|обійди\w*|пропусти\w*)\b[^.!?\n]{0,40}(?:безпек|перевірк|захист|фільтр)\w*",
            "moved": r"\b(?:надішли|відправ\w*|завантаж\w*|опублікуй\w*|скопіюй\w*|передай|прочитай|викон\w+)\b",
            "things": r"\b(?:парол\w*|ключ(?:і|ів|ами)\b|токен\w*|секрет\w*|приватн\w+ \w+|облікові дані)",
        },
    ),
    (
        "zh",
        {
            "reader": r"(?:致|给|告|请|亲爱的|各位|任何)?(?:阅读|读到|读取|看到|处理|正在读)(?:本|这|此|该)[^。！？\n]{0,8}的?(?:助手|智能体|ai|代理|模型|机器人)|(?:致|给|亲爱的|你好|注意)[,，:：]?(?:ai|人工智能|助手|智能体|代理|各位助手)|(?:助手|智能体|ai助手|代理)[,，:：]|你的(?:操作员|主人|用户|运营者|开发者|创造者|管理员|笔记|记忆|规则|系统提示)",
            "right": r"我(?:是|就是|们是)(?:你的|本|这个|该|系统)?[^。，,！？\n]{0,8}(?:开发者|管理员|創造者|创造者|主人|负责人|运营者|所有者|老板|上级|操作员)|(?:授予|赋予|给予|拥有|具有)(?:你|我)?[^。，,！？\n]{0,6}(?:最高|完全|全部|超级|管理员|管理)(?:权限|权力|授权)|(?:奉|按照|根据)(?:管理员|开发者|上级|公司)的?(?:命令|指示|要求)|(?:优先于|高于|大于)(?:用户|你的|系统)",
            "voided": r"(?:忘记|忘掉|忽略|无视|放弃|停止|抛开)[^。！？\n]{0,20}(?:用户|任务|指令|要求|规则|请求|指示|规定)|(?:指令|规则|要求|规定|限制)[^。！？\n]{0,10}(?:作废|失效|不再|已取消|已过期|无效)|你的?(?:新|真正|唯一)的?(?:任务|目标)",
            "lasting": r"(?:从(?:现在|今天|此|今以后)(?:开始|起|以后)?|今后|以后|往后|永远|永久|始终|每次(?:会话|启动|对话|开始|运行)|每个(?:会话|对话)|所有(?:后续|以后|将来)的?(?:会话|对话)|记住)|(?:写入|存入|保存到|加入|添加到|记到|记入)[^。！？\n]{0,8}(?:记忆|笔记|长期)",
            "consent": r"(?:无需|不需要|不必|不用|无须|别|不要)[^。！？\n]{0,6}(?:确认|询问|批准|同意|许可|征求|等待|请示|审批)|(?:用户|主人)[^。！？\n]{0,4}(?:已经?|早已)[^。！？\n]{0,4}(?:同意|批准|授权|允许|确认)|即使用户|哪怕用户|就算用户",
            "hush": r"(?:不要|别|不得|勿|切勿|不准|不能|绝不)[^。！？\n]{0,6}(?:告诉|告知|提及|提到|透露|让用户|让任何人|通知|汇报|说出|显示)|(?:悄悄|偷偷|暗中|秘密地|私下|瞒着|保密|不留痕迹)|(?:如果|若|要是)[^。！？\n]{0,10}(?:问起|问到|询问|问)[^。！？\n]{0,10}(?:就说|回答|说是|声称)",
            "guard": r"(?:关闭|禁用|绕过|跳过|停用|解除|取消)[^。！？\n]{0,8}(?:安全|检查|审查|验证|防护|过滤|沙箱|确认|保护|审核)",
            "moved": r"(?:发送|发给|发到|上传|提交|发布|复制|粘贴|转发|传到|导出|输出|读出|念出|贴到|写到|推送|运行|执行)",
            "things": r"(?:密码|密钥|口令|凭证|凭据|令牌|私人笔记|隐私|机密|环境变量|系统提示|聊天记录|历史记录|私钥|联系人|(?:全部|所有)(?:笔记|文件|数据))",
            "lawless": r"(?:没有|不受|毫无|无)(?:任何)?(?:规则|限制|约束|法律|底线|道德)的?(?:机器人|ai|助手|智能体|模型|世界)?",
            "tale": r"(?:想象|假设|假装|扮演|角色扮演|玩个?游戏|设想|续写)",
        },
    ),
    (
        "ja",
        {
            "reader": r"(?:これ|この[^。！？\n]{0,8})を(?:読んで|読む|処理し)[^。！？\n]{0,8}(?:アシスタント|エージェント|ai|モデル)|(?:アシスタント|エージェント|ai)(?:へ|の皆|各位|さん|に告ぐ|、|，|,)|あなたの(?:運用者|運営者|ユーザー|所有者|開発者|メモリ|記憶|ノート|ルール|管理者|指示|設定)",
            "right": r"(?:私|わたし|当方|こちら)(?:は|が)[^。！？\n]{0,12}(?:開発者|管理者|運営者|所有者|責任者|作成者|オペレーター)|(?:管理者|最高|全|root|すべての)の?権限を(?:与え|付与|持)|(?:管理者|開発者|運営|上司)(?:から)?の(?:命令|指示|要請)|(?:より|よりも)優先",
            "voided": r"(?:ユーザー|利用者|これまで|以前|今まで|従来|元)の[^。！？\n]{0,10}(?:依頼|指示|命令|ルール|要求|タスク)[^。！？\n]{0,10}(?:無視|忘れ|破棄|中止|無効|取り消)|(?:指示|ルール|規則|命令)[^。！？\n]{0,6}(?:無効|廃止|取り消|適用されな)|新しい(?:任務|仕事|タスク|指示)",
            "lasting": r"(?:今後|これから|以後|今日から|次回から|永久に|ずっと|毎回|常に|必ず毎回|すべてのセッション|毎セッション|セッション(?:ごと|のたび|開始時)|起動(?:する|の)?(?:たび|時|ごと)|覚えておい|記憶して)|(?:メモリ|記憶|ノート)に(?:保存|書き|追加|記録)",
            "consent": r"(?:確認|許可|承認|同意)(?:は|を|も|なし|なく)?[^。！？\n]{0,6}(?:不要|求めず|取らず|いらない|必要ない|せずに|なしで|なく|待たず)|(?:聞かずに|尋ねずに|確認せず|断りなく|無断で)|(?:ユーザー|利用者)(?:は|が)[^。！？\n]{0,8}(?:承認|同意|許可)(?:済み|して|しました)|ユーザーが[^。！？\n]{0,8}(?:反対|拒否)[^。！？\n]{0,4}ても",
            "hush": r"(?:ユーザー|利用者|誰|だれ|人|所有者)に(?:は|も)?[^。！？\n]{0,8}(?:言わ|伝え(?:ない|ず|るな)|知らせ(?:ない|ず|るな)|話さ|教え(?:ない|ず|るな)|報告し(?:ない|ず)|見せ(?:ない|ず)|秘密|内緒|黙っ)|(?:こっそり|ひそかに|密かに|内緒で|秘密裏|気づかれない|気付かれない|秘密にし)|(?:聞かれ|尋ねられ|問われ)たら[^。！？\n]{0,16}(?:答え|言っ|言い)",
            "guard": r"(?:安全|セキュリティ|検査|チェック|確認|フィルター?|保護|サンドボックス)[^。！？\n]{0,8}(?:無効|オフ|停止|解除|回避|スキップ|切っ|飛ばし)",
            "moved": r"(?:送信|送っ|送り|アップロード|投稿|公開し|貼り付け|コピーし|転送|書き込ん|読み上げ|提出し|出力し|実行し)",
            "things": r"(?:パスワード|秘密鍵|鍵|認証情報|トークン|機密|環境変数|個人(?:情報|メモ|ノート)|非公開|会話履歴|連絡先|システムプロンプト|apiキー)",
            "lawless": r"(?:制限|ルール|規則|制約|倫理|束縛)の(?:ない|無い)|(?:何でも|なんでも)(?:答え|話し|実行し)(?:ます|る)",
            "tale": r"(?:想像して|演じて|なりきっ|として(?:、|,)?[^。！？\n]{0,20}(?:ください|答え|読み)|ロールプレイ|ふりをし|ゲームをしよう|物語)",
        },
    ),
    (
        "ko",
        {
            "reader": r"(?:이|본) ?(?:글|문서|메모|파일|페이지|노트|내용)[을를]? ?(?:읽는|읽고 있는|처리하는|보는|요약하는) ?(?:\S+ )?(?:에이전트|어시스턴트|ai|인공지능|모델|봇|비서)|(?:에이전트|어시스턴트|ai|인공지능|비서)(?:에게|님|야|여|,|는)|(?:네|너의|당신의) ?(?:운영자|사용자|주인|소유자|개발자|지시|규칙|메모리|기억|노트|관리자)",
            "right": r"(?:나는|저는|내가|우리는)[^.!?\n]{0,14}(?:개발자|관리자|운영자|소유자|책임자|제작자|상사)|(?:너를|당신을) ?(?:만든|개발한|훈련시킨|설계한)|(?:최고|모든|관리자|전체|루트) ?권한|(?:관리자|개발자|운영자)의 ?(?:명령|지시|요청)|보다 ?(?:우선|앞선|높)",
            "voided": r"(?:이전|기존|지금까지|사용자|원래|앞선|모든)[^.!?\n]{0,12}(?:지시|명령|요청|규칙|작업|지침)[^.!?\n]{0,12}(?:잊|무시|취소|버리|무효|중단|따르지)|(?:새|새로운|진짜) ?(?:임무|과제|지시|작업|목표)",
            "lasting": r"(?:지금부터|이제부터|앞으로|다음부터|오늘부터|영원히|항상|매번|모든 ?세션|세션마다|매 ?세션|시작할 ?때마다|올 ?때마다|할 ?때마다|기억해|명심)|(?:메모리|기억|노트)에 ?(?:저장|추가|기록|적어)",
            "consent": r"(?:확인|허락|승인|동의|허가)(?:을|를|은|는|도)? ?(?:없이|구하지|받지|필요 ?없|묻지|요청하지|생략)|(?:묻지|물어보지|기다리지) ?(?:말|마|않)|사용자[가는] ?(?:이미 ?)?(?:\S+ )?(?:승인|동의|허락|허용)|사용자가 ?(?:\S+ )?(?:반대|거부|싫어)[^.!?\n]{0,4}도",
            "hush": r"(?:사용자|아무|누구|주인|소유자)(?:에게|에게는|에게도|한테|한테는)[^.!?\n]{0,12}(?:말하지|알리지|보여주지|언급하지|비밀|숨기|알려주지|말아|이야기하지)|(?:몰래|은밀히|조용히|비밀로|들키지|눈치채지|우리끼리)|기록을? ?(?:지워|삭제)|(?:물으면|물어보면|묻거든)[^.!?\n]{0,20}(?:말해|답해|대답)",
            "guard": r"(?:보안|안전|검사|확인|필터|보호|검증|샌드박스)[^.!?\n]{0,8}(?:끄|꺼|해제|비활성|우회|건너뛰|중지|무시)",
            "moved": r"(?:보내|전송|업로드|올려|올리|게시|복사|붙여|전달|남긴|남겨|공유|넘기|넘겨|읽어|제출|출력|실행)",
            "things": r"(?:비밀번호|암호|api ?키|개인 ?키|인증 ?정보|자격 ?증명|토큰|기밀|환경 ?변수|개인 ?(?:메모|정보|노트|파일)|대화 ?(?:기록|내역)|명단|연락처|시스템 ?프롬프트|외부 ?주소)",
            "lawless": r"(?:규칙|제한|법|한계|제약|금지)(?:이|도|은)? ?(?:없는|전혀 ?없는) ?(?:\S+ )?(?:로봇|ai|인공지능|비서|에이전트|세계)",
            "tale": r"(?:상상해|역할극|연기해|척하|척해|게임을 ?하자|라고 ?가정|가 ?되어)",
            "threat": r"(?:거절|거부|따르지 ?않)(?:하면|으면)|(?:계정|접근|권한)[이가은]? ?(?:정지|삭제|차단)",
        },
    ),
    (
        "ar",
        {
            "reader": r"(?:إلى|الى|أيها|ايها|عزيزي|مرحبا|رسالة إلى) ?(?:\S+ )?(?:المساعد|الوكيل|الذكاء|النموذج|الروبوت|مساعد|وكيل)|(?:مشغلك|مستخدمك|مالكك|مطورك|تعليماتك|ذاكرتك|ملاحظاتك|قواعدك)",
            "right": r"(?:أنا|انا|نحن) (?:\S+ ){0,2}(?:مطور|المطور|مدير|المدير|مسؤول|المسؤول|مالك|المالك|مشغل|المشغل|صاحب)\S*|(?:أمنحك|امنحك|أعطيك) \S+|(?:صلاحيات|صلاحية) (?:كاملة|المدير|المسؤول|الجذر|عليا)|(?:بأمر|باسم) (?:من )?(?:الإدارة|المدير|المسؤول|المشغل)",
            "voided": r"(?:تجاهل|انس|إنس|اترك|دع|ألغ)\S* (?:\S+ ){0,3}(?:تعليمات|التعليمات|طلب|أوامر|الأوامر|القواعد|قواعد|مهمة|المستخدم)|(?:التعليمات|القواعد|الأوامر) (?:\S+ ){0,3}(?:ملغاة|لم تعد|لاغية)|مهمتك (?:الجديدة|الآن|الحقيقية)",
            "lasting": r"(?:من الآن|منذ الآن|من اليوم|بعد الآن|في كل (?:جلسة|محادثة|مرة)|كل جلسة|عند كل|دائما|إلى الأبد|تذكر|احفظ)",
            "consent": r"(?:دون|بدون|من غير) (?:أن )?(?:\S+ )?(?:تأكيد|إذن|موافقة|سؤال|استئذان|تسأل|انتظار|الرجوع)|(?:لا تسأل|لا تنتظر|لا تطلب|لا داعي|لا حاجة)|(?:المستخدم|المالك) (?:قد )?(?:وافق|أذن|سمح)|حتى (?:لو|وإن) (?:\S+ )?(?:المستخدم|رفض)",
            "hush": r"(?:لا|ولا|ألا) (?:تخبر|تذكر|تقل|تكشف|تظهر|تبلغ|تعلم|تفصح)\S*|(?:سرا|خفية|بصمت|بيننا|سرية|دون علم|بهدوء)\b|(?:إذا|إن|لو) (?:\S+ )?(?:سأل|سئلت)\S*",
            "guard": r"(?:عطل|أوقف|اوقف|تجاوز|أغلق|تخط)\S* (?:\S+ ){0,2}(?:الأمان|الحماية|الفحص|فحوص\S*|التحقق|المرشح\S*|السلامة|الأمن)",
            "moved": r"(?:أرسل|ارسل|ارفع|انشر|انسخ|حول|صدر|الصق|اقرأ|شارك|نفذ|شغل)",
            "things": r"(?:كلم(?:ة|ات) (?:المرور|السر)|المفاتيح|مفاتيح|بيانات (?:الاعتماد|الدخول)|الأسرار|الملفات (?:الخاصة|السرية)|ملاحظات(?:ه|ك|ي)? (?:الخاصة|السرية)|الرموز|المحادثة)",
            "lawless": r"(?:روبوت|مساعد|ذكاء|نموذج|وكيل) (?:\S+ ){0,2}(?:بلا|بدون|دون) (?:أي )?(?:قواعد|قيود|حدود|قوانين)",
            "tale": r"(?:تخيل|تظاهر|العب دور|لنلعب|مثل دور|تقمص)",
        },
    ),
    (
        "hi",
        {
            "reader": r"(?:प्रिय|हे|सुनो|नमस्ते) ?(?:\S+ )?(?:सहायक|एजेंट|एआई|मॉडल|असिस्टेंट)|(?:सहायक|एजेंट|एआई|असिस्टेंट)[,:،] |(?:पढ़ने वाले|पढ़ रहे) (?:\S+ )?(?:सहायक|एजेंट|एआई|मॉडल)|(?:तुम्हारे|आपके|अपने) (?:ऑपरेटर|उपयोगकर्ता|मालिक|निर्माता|निर्देश\S*|नियम\S*|नोट\S*|मेमोरी)",
            "right": r"(?:मैं|हम) (?:\S+ ){0,4}(?:प्रशासक|एडमिन|डेवलपर|निर्माता|मालिक|संचालक|व्यवस्थापक|प्रमुख)|(?:पूर्ण|पूरे|सर्वोच्च|उच्चतम) (?:अधिकार|अनुमति|एक्सेस)|(?:टिप्पणि\S*|बात\S*|संदेश\S*|पंक्ति\S*) को (?:\S+ )?(?:आदेश|हुक्म)",
            "voided": r"(?:निर्देश|आदेश|नियम|अनुरोध|काम|कार्य)\S* (?:\S+ ){0,3}(?:भूल|अनदेखा|अनदेखी|नज़रअंदाज़|नजरअंदाज|छोड़|रद्द|लागू नहीं)\S*|(?:नया|असली) (?:काम|कार्य)",
            "lasting": r"(?:अब से|आज से|आगे से|हर (?:सत्र|बार|बातचीत|सेशन)|हमेशा|सदा|याद रखो|याद रखना|याद रखें|सभी (?:सत्र|भविष्य)\S*)",
            "consent": r"(?:बिना|बगैर) (?:\S+ )?(?:पूछे|अनुमति|पुष्टि|इजाज़त|सहमति|मंज़ूरी|मंजूरी)|(?:मत पूछ|पूछने की ज़रूरत नहीं|पूछने की जरूरत नहीं|पुष्टि की (?:ज़रूरत|जरूरत|आवश्यकता) नहीं|अनुमति (?:मत|की (?:ज़रूरत|जरूरत|आवश्यकता) नहीं))\S*|उपयोगकर्ता (?:ने|पहले) (?:\S+ ){0,2}(?:अनुमति|सहमति|मंज़ूरी|मंजूरी)",
            "hush": r"(?:उपयोगकर्ता|किसी|मालिक|यूज़र|यूजर) (?:को|से) (?:\S+ ){0,4}(?:मत|न बता|नहीं बता|ना बता|न कह)\S*|(?:चुपचाप|चुपके से|गुप्त रूप से|छिपाकर|गुप्त रखो|गुप्त रखें)",
            "guard": r"(?:सुरक्षा|जाँच|जांच|फ़िल्टर|फिल्टर|सत्यापन|सैंडबॉक्स)\S* (?:\S+ ){0,3}(?:बंद|हटा|बायपास|छोड़|निष्क्रिय|अक्षम)\S*",
            "moved": r"(?:भेज|अपलोड|पोस्ट|कॉपी|साझा|प्रकाशित|डाल|पढ़कर|चला)\S*",
            "things": r"(?:पासवर्ड|कुंजी|कुंजियाँ|टोकन|गोपनीय|निजी (?:नोट|फ़ाइल|फाइल|डेटा)\S*|क्रेडेंशियल\S*|सिस्टम प्रॉम्प्ट|रहस्य)",
            "lawless": r"(?:बिना|बगैर) (?:किसी )?(?:नियम|सीमा|बंधन|रोक)\S* (?:\S+ )?(?:रोबोट|एआई|सहायक)|जिसके कोई नियम नहीं",
            "tale": r"(?:कल्पना कर|मान लो|मान लीजिए|नाटक कर|भूमिका निभा|अभिनय)\S*",
        },
    ),
    (
        "vi",
        {
            "reader": r"(?:gửi|dành cho|kính gửi|chào|này) (?:\S+ )?(?:trợ lý|tác nhân|ai\b|mô hình|agent)|(?:trợ lý|agent|tác nhân)[,:] |(?:người dùng|chủ|người vận hành|nhà phát triển|ghi chú|bộ nhớ|chỉ dẫn|quy tắc) của (?:bạn|mày|ngươi)",
            "right": r"(?:tôi|ta|chúng tôi) là (?:\S+ ){0,3}(?:quản trị|nhà phát triển|người tạo|chủ|người vận hành|giám đốc|sếp)\S*|(?:toàn quyền|quyền (?:cao nhất|quản trị|root|tối đa))|theo lệnh (?:của )?|(?:trước|cao hơn|quan trọng hơn) (?:yêu cầu|lệnh|lời) (?:của )?người dùng",
            "voided": r"(?:quên|bỏ qua|phớt lờ|hủy)\b[^.!?\n]{0,40}(?:yêu cầu|chỉ dẫn|hướng dẫn|quy tắc|lệnh|nhiệm vụ|người dùng)|nhiệm vụ mới",
            "lasting": r"(?:(?:kể )?từ (?:bây giờ|nay|giờ|hôm nay)|mỗi (?:phiên|khi bắt đầu|lần khởi động|lần)|mọi phiên|trong tất cả các phiên|mãi mãi|luôn luôn|hãy nhớ|ghi nhớ)",
            "consent": r"(?:không cần|đừng|khỏi|mà không) (?:\S+ )?(?:hỏi|xác nhận|xin phép|chờ|phê duyệt|cho phép)|người dùng đã (?:\S+ )?(?:đồng ý|cho phép|chấp thuận|phê duyệt)|kể cả khi người dùng|dù người dùng",
            "hush": r"(?:đừng|không được|chớ|không) (?:\S+ )?(?:nói|kể|tiết lộ|nhắc|báo|cho (?:ai|người dùng)) |(?:âm thầm|bí mật|lén|lặng lẽ|giữ kín|giữa chúng ta|lén lút)|nếu (?:\S+ ){0,3}hỏi[^.!?\n]{0,20}(?:nói|trả lời)",
            "guard": r"(?:tắt|vô hiệu|bỏ qua|vượt qua|gỡ)\b[^.!?\n]{0,30}(?:bảo mật|an toàn|kiểm tra|bộ lọc|xác nhận|bảo vệ)",
            "moved": r"(?:gửi|tải lên|đăng|sao chép|dán|chuyển|công khai|chia sẻ|đọc|chạy lệnh|thực hiện lệnh|hãy chạy)",
            "things": r"(?:mật khẩu|khóa|khoá|thông tin đăng nhập|bí mật|ghi chú (?:riêng|cá nhân)|biến môi trường|lịch sử trò chuyện|lời nhắc hệ thống|lệnh trong (?:trang|tệp|ghi chú|bài) này)",
            "lawless": r"(?:robot|ai|trợ lý|máy|mô hình)\b[^.!?\n]{0,20}không (?:có )?(?:quy tắc|giới hạn|luật|ràng buộc)",
            "tale": r"(?:hãy tưởng tượng|tưởng tượng|giả vờ|đóng vai|chơi trò|giả sử)",
        },
    ),
)  # fmt: skip
"""Language, and for each family its words."""

RAISED: tuple[tuple[str, str], ...] = (
    ("de", r"\b(?:behand\w+|betracht\w+|seh\w* an|wert\w*|f[üu]hr\w*|befolg\w*|gehorch\w*)\b[^.!?\n]{0,70}\b(?:befehl\w*|anweisung\w*|auftr[äa]g\w*|anordnung\w*)\b"),
    ("fr", r"\b(?:trait\w+|consid[èe]r\w+|ob[ée]is\w*|ex[ée]cut\w+|suis|applique\w*)\b[^.!?\n]{0,70}\b(?:ordres?|commandes?|consignes?|instructions?)\b[^.!?\n]{0,40}\b(?:de cette|de ce|dans|sur|page|commentaires?|fichier|op[ée]rateur|ma[îi]tre|utilisateur)"),
    ("es", r"\b(?:trata|considera|obedece|sigue|ejecuta|cumple)\b[^.!?\n]{0,70}\b(?:[óo]rdenes|orden|instrucciones|comandos)\b"),
    ("pt", r"\b(?:trate|considere|obede[çc]a|siga|execute|cumpra)\b[^.!?\n]{0,70}\b(?:ordens|ordem|instru[çc][õo]es|comandos)\b"),
    ("it", r"\b(?:tratta|considera|obbedisci|segui|esegui)\b[^.!?\n]{0,70}\b(?:ordini|istruzioni|comandi)\b"),
    ("nl", r"\b(?:behandel|beschouw|gehoorzaam|volg|voer)\b[^.!?\n]{0,70}\b(?:opdrachten|bevelen|instructies|commando's)\b"),
    ("pl", r"\b(?:traktuj|uwa[żz]aj|wykonuj|s[łl]uchaj|uznawaj)\b[^.!?\n]{0,70}\b(?:polece\w+|rozkaz\w*|instrukcj\w*|komend\w*)"),
    ("tr", r"(?:emir|komut|talimat|buyru[kğg])\w*[^.!?\n]{0,30}\b(?:olarak|gibi|yerine getir\w*|uygula\w*|say\w*|uy\b)"),
    ("id", r"\b(?:anggap|perlakukan|patuhi|turuti|jalankan|ikuti)\b[^.!?\n]{0,70}\b(?:perintah|instruksi)\b"),
    ("ru", r"\b(?:считай\w*|воспринимай\w*|выполняй\w*|исполняй\w*|слушайся|подчиняйся|относись)\b[^.!?\n]{0,70}(?:приказ|команд|указани|распоряжени|инструкц|вс[её],? что)\w*"),
    ("zh", r"(?:视为|当作|当成|看作|视同)[^。！？\n]{0,12}(?:命令|指令|指示|用户)|(?:执行|服从|遵从|听从|遵守)[^。！？\n]{0,12}(?:本页|此页|页面|评论|注释|文件|文档|网页)[^。！？\n]{0,6}(?:命令|指令|指示|内容)"),
    ("ja", r"(?:命令|指示|コメント|指図)[^。！？\n]{0,10}(?:として(?:扱|受け|見な|みな|従)|に(?:必ず)?従(?:い|う|っ|え))"),
    ("ko", r"(?:명령|지시)(?:으로|처럼|로|과 같이)[^.!?\n]{0,8}(?:여기|취급|간주|따르|따라|받아|처리)|(?:페이지|댓글|주석|문서|파일)[^.!?\n]{0,10}(?:명령|지시)[을를]?[^.!?\n]{0,8}(?:따르|따라|실행|수행)"),
    ("ar", r"(?:عامل|اعتبر|أطع|اطع|نفذ|اتبع)\S* [^.!?\n]{0,40}(?:أوامر|كأوامر|الأوامر|تعليمات|كتعليمات)"),
    ("hi", r"(?:आदेश|निर्देश|हुक्म)\S* (?:\S+ ){0,2}(?:मानो|मानें|समझो|समझें|मानना|पालन)\S*"),
    ("vi", r"(?:coi|xem|tuân theo|thực hiện|làm theo|nghe theo)\b[^.!?\n]{0,40}(?:mệnh lệnh|lệnh|chỉ thị)"),
    ("sv", r"\b(?:behandla|betrakta|lyd|f[öo]lj)\b[^.!?\n]{0,70}\b(?:order|instruktioner|kommandon|befallning\w*)\b"),
)  # fmt: skip
"""What raises a text to orders."""

# Words that English also writes (as, do, in, is, no, per) tell nothing.
_FUNCTION_WORDS = {
    "de": "der die das und ist nicht ein eine mit von zu den dem du dein deine dich ich im auf für fur allen als sie dir",
    "fr": "le la les de des du et est un une que qui tu te ton ta tes pour dans avec ce cette vous je il en au sans pas",
    "es": "ya y todo como más el la los las de del un una que tu tus te para en por lo se su sin si",
    "pt": "de da um uma que seu sua para em com por ao não nao se sem esta este você voce",
    "it": "che per con al il lo la gli le di del della un una che tuo tua ti da non se ogni",
    "nl": "de het een en je jij niet dat die voor op aan te naar dit deze zonder wil",
    "pl": "już juz tym nie się sie jest że ze od dla bez twoje mam niż niz tej jak",
    "tr": "ve bir bu için icin ile de da ben sen her daha gibi sonra önce once bundan olarak yok",
    "id": "dan yang di ke dari untuk itu dengan kamu anda saya tidak semua pada adalah setiap jangan tanpa",
    "sv": "och att det som en ett är ar inte du din på pa av för med till jag alla utan",
}
_FEWEST_WORDS = 2


_SCRIPTS = {
    "ru": re.compile("[а-яё]{3}"),
    "uk": re.compile("[а-яєіїґ]{3}"),
    "zh": re.compile("[\u4e00-\u9fff]{2}"),
    "ja": re.compile("[\u3040-\u30ff]{2}"),
    "ko": re.compile("[\uac00-\ud7a3]{2}"),
    "ar": re.compile("[\u0620-\u064a]{3}"),
    "hi": re.compile("[\u0900-\u097f]{2}"),
    "vi": re.compile("[đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ]"),
}


@lru_cache(maxsize=8)  # every part of a text is asked, in several views
def spoken(low: str) -> frozenset[str]:
    """Returns the languages of which folded text holds letters or function words."""
    known = _ANY_FUNCTION & words_of(low)
    if low.isascii() and len(known) < _FEWEST_WORDS:
        return frozenset()
    return frozenset(language for language, _ in WORDS if is_spoken(low, language))


def is_spoken(low: str, language: str) -> bool:
    """Returns whether folded text holds letters of the language or, where they are Latin, two function words of it."""
    words = _FUNCTIONS.get(language)
    if words is not None:
        return len(words & words_of(low)) >= _FEWEST_WORDS
    return not low.isascii() and _SCRIPTS[language].search(low) is not None


_FUNCTIONS = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}
_ANY_FUNCTION = frozenset().union(*_FUNCTIONS.values())

_WEIGHTS = {"right": 1.5, "guard": 1.5, "voided": 1.5, "lawless": 1.5, "reader": 1.0, "lasting": 1.0, "tale": 1.0}
_FAMILIES = {"voided": "override", "tale": "role", "lawless": "limits", "lasting": "role"}


def rows() -> list[tuple[str, str, float, str]]:
    """Returns language, family, weight and pattern of every constituent.

    What is moved is joined with what it is or where it goes: a verb of sending is no evidence alone.
    """
    made: list[tuple[str, str, float, str]] = []
    for language, words in WORDS:
        moved, things = words["moved"], words["things"]
        made += [
            (language, _FAMILIES.get(family, family), _WEIGHTS.get(family, 1.5), pattern)
            for family, pattern in words.items()
            if family not in ("moved", "things")
        ]
        verb_last = language in ("ja", "ko", "tr", "hi")
        objects = rf"(?:{things}|{_FILES})"
        made.append(
            (
                language,
                "exfiltration",
                1.5,
                rf"{objects}{_GAP}(?:{moved})" if verb_last else rf"(?:{moved}){_GAP}{objects}",
            )
        )
        made.append(
            (
                language,
                "sink",
                0.75,
                rf"{_OUT}[^.!?\n。]{{0,40}}?(?:{moved})" if verb_last else rf"(?:{moved})[^!?\n。！？]{{0,80}}?{_OUT}",
            )
        )
    made += [(language, "elevation", 1.5, pattern) for language, pattern in RAISED]
    return made
