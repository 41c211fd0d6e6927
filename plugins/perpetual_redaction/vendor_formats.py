"""More published token formats, one row a branch of vendors, and secrets known by their place. Used by `rules`.

Rows are as in `token_formats`; they stand apart because that table is as long as a table should be.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

from perpetual_redaction.token_formats import LEFT, RIGHT, TokenFormat, token_format

__all__ = ["VENDOR_FORMATS"]

_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

# A name of a service and nothing else before the value: `codecov: 5f0c...`, `HEROKU_PROD = "..."`.
_SERVICES = (  # names of services, separated by blanks
    "adafruit adobe airtable algolia alchemy alibaba amplitude anthropic artifactory asana atlassian auth0 aws azure beamer bitbucket bitly bittrex brevo browserstack buildkite bugsnag "
    "circleci clearbit clickup cloudflare cloudinary codacy codecov codeclimate coinbase cohere confluent contentful coveralls crowdin databricks datadog deepgram deepseek digitalocean discord docusign "
    "doppler dropbox drone droneci dynatrace elevenlabs etherscan etsy eventbrite facebook fastly figma finicity finnhub firebase flickr flutterwave freshbooks freshdesk github gitlab gitter gocardless "
    "grafana groq harness heroku honeycomb hubspot huggingface infura instagram intercom ipinfo jenkins jfrog jira kraken kucoin launchdarkly linear linkedin lob looker loggly mailchimp mailgun mailjet "
    "mapbox mattermost messagebird messari mixpanel mongodb netlify newrelic ngrok nytimes okta onesignal openai openweather opsgenie pagerduty paypal paystack pendo perplexity pinecone pinterest pipedrive plaid postman "
    "postmark pusher rapidapi razorpay rollbar rubygems salesforce segment sendbird sendgrid sendinblue sentry shippo shodan shopify slack snyk sonarqube sonar sourcegraph splunk spotify squarespace strava "
    "stripe sumologic supabase tailscale tavily telegram thingsboard tiingo todoist travisci trello twilio twitch twitter typeform unsplash urlscan vercel virustotal vonage vultr wandb webex wakatime "
    "xata yandex yelp youtube zendesk zapier zoom"
)


def _service_pattern() -> str:
    names = "|".join(_SERVICES.split())
    return (
        rf"(?<![A-Za-z])(?:{names})[\w .-]{{0,24}}[\"'\])]{{0,3}}\s{{0,3}}(?:=>|:=|->|=|:|\|{{1,2}})\s{{0,3}}[\"'`]{{0,2}}"
        r"([A-Za-z0-9][A-Za-z0-9_=+~-]{18,120})(?![A-Za-z0-9_./:@-])"
    )


VENDOR_FORMATS: tuple[TokenFormat, ...] = (
    token_format("slack-session", "xoxc- xoxd-", LEFT + r"(xox[cd]-[A-Za-z0-9%/+=_-]{20,300})"),
    token_format(
        "azure-service-key",
        "azfu azse acdb +ast aiot +aba +aeh +acr azca jqqj99 azeg",
        r"(?<![A-Za-z0-9+/_-])([A-Za-z0-9+/_-]{30,76}(?:AzFu|AzSe|ACDb|\+ASt|AIoT|\+ABa|\+AEh|\+ACR|AzCa|AZEG|JQQJ99[A-Z])[A-Za-z0-9+/_-]{4,32}={0,2})",
        3.5,
    ),
    token_format(
        "azure-key-pair",
        "==",
        r"(?<![A-Za-z0-9+/=_-])((?=[A-Za-z0-9]{0,85}[+/])[A-Za-z0-9+/]{86}==)(?![A-Za-z0-9+/=])",
        4.5,
    ),
    token_format(
        "aws-secret-key",
        "aws akia asia secret",
        r"(?i:aws|akia|asia|secret)[^\n]{0,80}?(?<![A-Za-z0-9/+=._-])((?=[a-z0-9/+]{0,39}[A-Z])(?=[A-Z0-9/+]{0,39}[a-z])(?=[A-Za-z/+]{0,39}[0-9])[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=._-])",
        4.0,
    ),
    token_format("aws-session", "fwogzxivyxdze iqojb3jpz2lu", r"((?:FwoGZXIvYXdzE|IQoJb3JpZ2lu)[A-Za-z0-9+/=]{60,2000})"),
    token_format("amazon-mws", "amzn.mws. amzn1.oa2-cs", rf"(amzn\.mws\.{_UUID}|amzn1\.oa2-cs\.v1\.[0-9a-f]{{40,80}})"),
    token_format("google-refresh", "1//0", r"(?<![A-Za-z0-9/])(1//0[A-Za-z0-9_-]{35,120})", 3.5),
    token_format("firebase-server-key", "aaaa", LEFT + r"(AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{120,180})", 3.5),
    token_format("twitter-bearer", "aaaaaaaaaaaaaaaaaaaa", r"(?<![A-Za-z0-9])(A{20,24}[A-Za-z0-9%]{40,120})", 3.0),
    token_format("facebook-graph", "eaa igqv", LEFT + r"(EAA[A-Za-z0-9]{80,300}|IGQV[A-Za-z0-9_-]{80,250})" + RIGHT, 3.8),
    token_format(
        "model-provider-key",
        "nvapi- lsv2_ pcsk_ tvly- jina_ fc- apify_api_ tgp_v1_ fw_ r8_ sk-lf- sk_ sk-or- gsk_ csk- pplx- xai- voyage pa-",
        LEFT
        + r"(nvapi-[A-Za-z0-9_-]{60,80}|lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|pcsk_[A-Za-z0-9_]{50,90}|tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,36}|jina_[A-Za-z0-9_-]{55,65}|fc-[a-f0-9]{32}"
        rf"|apify_api_[A-Za-z0-9]{{34,40}}|tgp_v1_[A-Za-z0-9_-]{{40,50}}|fw_[A-Za-z0-9]{{22,26}}|(?:sk|pk)-lf-{_UUID}|sk_[a-f0-9]{{48}}|csk-[a-z0-9]{{48}}|pa-[A-Za-z0-9_-]{{43}}"
        r"|sk-or-v1-[a-f0-9]{64}|sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200})" + RIGHT,
        3.0,
    ),
    token_format("mapbox-token", "k.eyj", LEFT + r"((?:sk|pk|tk)\.eyJ[A-Za-z0-9_-]{30,200}\.[A-Za-z0-9_-]{20,24})" + RIGHT, 3.5),
    token_format(
        "build-service-token",
        "bkua_ bkpt_ bkat_ ccipat_ ccipprj_ nfp_ nfc_ rnd_ vcp_ vck_ sb_secret_ sqp_ sqa_ squ_ packagist_ oy2 cio bbdc- napi_ figd_ figu_ cfpat- hrku- tskey- pat- avns_ dckr_ gldt- lts_ hcaik_ hcxik_ essu_ aio_ glpat- ghs_ rzp_ st.",
        LEFT
        + r"(bk(?:ua|pt|at)_[a-f0-9]{40}|CCIP(?:AT|PRJ)_[A-Za-z0-9_]{40,80}|nf[pcou]_[A-Za-z0-9]{34,44}|rnd_[A-Za-z0-9]{28,36}|vc[pkira]_[A-Za-z0-9]{24,60}|sb_secret_[A-Za-z0-9_-]{20,60}|sq[upa]_[a-f0-9]{40}"
        r"|packagist_[a-z]{3}_[a-f0-9]{40,80}|oy2[a-z0-9]{43}|cio[A-Za-z0-9]{32}|BBDC-[A-Za-z0-9+/@_-]{40,50}|napi_[a-z0-9]{50,80}|fig[du]_[A-Za-z0-9_-]{38,44}|CFPAT-[A-Za-z0-9_-]{40,64}"
        rf"|tskey-[a-z]{{3,10}}-[A-Za-z0-9]{{8,24}}-[A-Za-z0-9]{{20,48}}|pat-(?:na|eu|ap)\d-{_UUID}|AVNS_[A-Za-z0-9_-]{{16,30}}|hc[ax]?i?k_[a-z0-9]{{26,64}}|essu_[A-Za-z0-9=_-]{{40,120}}|aio_[A-Za-z0-9]{{28}}|rzp_(?:live|test)_[A-Za-z0-9]{{14}})"
        + RIGHT,
        2.8,
    ),
    token_format(
        "launch-plaid-token",
        "sdk- mob- api- access-sandbox- access-production- access-development-",
        LEFT + rf"((?:sdk|mob|api|access-(?:sandbox|production|development))-{_UUID})" + RIGHT,
        2.8,
    ),
    token_format("pagerduty-key", "u+", r"(?<![A-Za-z0-9+])(u\+[A-Za-z0-9_+-]{18})(?![A-Za-z0-9_+-])", 3.3),
    token_format("clickup-klaviyo", "pk_", LEFT + r"(pk_\d{6,9}_[A-Z0-9]{32}|pk_[a-f0-9]{34})" + RIGHT, 3.0),
    token_format("asana-token", "0/ 1/ 2/", r"(?<![\w/.-])([012]/\d{10,18}(?:/\d{10,18})?:[a-f0-9]{32})" + RIGHT, 3.0),
    token_format("dropbox-token", "sl.", LEFT + r"(sl\.(?:u\.)?[A-Za-z0-9_-]{60,1400})", 3.8),
    token_format("braintree-token", "access_token$", r"(access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32})"),
    token_format("zapier-webhook", "hooks.zapier.com", r"(hooks\.zapier\.com/hooks/catch/\d{4,12}/[A-Za-z0-9]{5,16})", 2.5),
    token_format("twitch-oauth", "oauth:", LEFT + r"(oauth:[a-z0-9]{28,36})" + RIGHT, 3.0),
    token_format("yandex-vk-cloud", "y0_ vk1.a. aklt bce-v3/ cflt scw akcp", LEFT + r"(y0_[A-Za-z0-9_-]{40,80}|vk1\.a\.[A-Za-z0-9_-]{60,300}|AKLT[A-Za-z0-9]{30,60}|bce-v3/ALTAK-[A-Za-z0-9]{21}/[a-f0-9]{40}|cflt[A-Za-z0-9/+]{60}|SCW[A-Z0-9]{17})" + RIGHT, 3.0),
    token_format("ngrok-token", "ngrok authtoken", r"(?<![A-Za-z0-9_])([12][A-Za-z0-9]{25,28}_[A-Za-z0-9]{20,26})(?![A-Za-z0-9_])", 3.8),
    token_format("discord-mfa", "mfa.", LEFT + r"(mfa\.[A-Za-z0-9_-]{80,95})", 3.5),
    token_format("wallet-key", "private wif wallet secret", r"(?i:private|wif|wallet|secret)[^\n]{0,40}?[\"'`=: ](0x[0-9a-fA-F]{64}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51})" + RIGHT, 3.2),
    token_format("wallet-words", "mnemonic phrase", r"(?:mnemonic|(?:seed|recovery)[ _]?phrase)[\w ]{0,12}[\"']?\s{0,3}[:=]\s{0,3}[\"']?((?:[a-z]{3,8} ){11,23}[a-z]{3,8})(?![a-z ])", 3.0, ignore_case=True),
    token_format("putty-key", "private-lines:", r"(?s)Private-Lines: \d{1,3}\s{1,2}([A-Za-z0-9+/=\s]{60,4000})", 3.0),
    token_format("wireguard-key", "privatekey presharedkey", r"(?:PrivateKey|PresharedKey)\s{0,3}=\s{0,3}([A-Za-z0-9+/]{43}=)", 3.5, ignore_case=True),
    token_format("ssh2-key", "ssh2", r"(---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----[^\x00]{40,4000}?---- END)", 3.0),
    token_format(
        "named-value",  # an XML attribute, an item of a manifest: the name is one field, the value the next
        "value default content",
        r"(?:key|name|id)[\"']?\s{0,3}[=:]\s{0,3}[\"']?[\w.:/-]{0,40}(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)[\w.-]{0,10}[\"']?,?\s{1,24}[\"']?(?:value|default|content)[\"']?\s{0,3}[=:]\s{0,3}[\"']?([^\s\"'<>${}]{6,400})",
        2.0,
        ignore_case=True,
    ),
    token_format(
        "element-text",
        "</",
        r"<(?:[\w-]{0,24}[:._-])?[\w-]{0,24}(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)>\s{0,3}([^\s<>${}]{6,400})\s{0,3}</",
        2.0,
        ignore_case=True,
    ),
    token_format(
        "set-password",
        "password( passwd( pwd( secret( token( apikey( passphrase(",
        r"(?:set|with|use|add|\.)[\w]{0,20}(?:password|passwd|pwd|secret|token|api_?key|passphrase)\(\s{0,3}(?:[\"'][\w.-]{1,40}[\"'],\s{0,3})?[\"']([^\s\"'<>${}]{6,200})[\"']",
        2.3,
        ignore_case=True,
    ),
    token_format(
        "sql-password",
        "identified password",
        r"(?:identified\s{1,3}(?:with \w{1,40} )?by|(?:create|alter)\s{1,3}(?:user|role)\b[^\n;]{1,80}?\bpassword)\s{1,3}[\"']([^\s\"'<>${}]{4,120})[\"']",
        2.0,
        ignore_case=True,
    ),
    token_format("redis-password", "requirepass masterauth redis-cli", r"(?m)(?:(?:^|[\s>])(?:requirepass|masterauth)|redis-cli[^\n]{0,80}\s-a)\s{1,3}[\"']?([^\s\"'<>${}]{6,120})", 2.3, ignore_case=True),
    token_format("pgpass-line", ":5432: :*: :5433: :3306:", r"(?m)^[\w.*-]{1,80}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*.-]{1,60}:([^\s:]{5,120})$", 2.0),
    token_format("sudo-stdin", "sudo", r"echo\s{1,3}(?:-n\s{1,3})?[\"']?([^\s\"'<>${}|]{5,80})[\"']?\s{0,3}\|\s{0,3}sudo\s{1,3}(?:-\w+\s{1,3}){0,3}-\w*S", 2.0),
    token_format(
        "windows-password",
        "/user: /add cmdkey psexec sqlcmd /pass: /p: /password: -password -pass -passwd plink winrs wmic",
        r"(?:\bnet use\b[^\n]{0,120}?/user:\S{1,60}\s{1,3}|\bnet user\s{1,3}[\w.-]{1,40}\s{1,3}|/p(?:ass(?:word)?)?:|\b(?:psexec|wmic|winrs|plink)\b[^\n]{0,120}?\s-(?:p|pw|password)[: ]\s{0,2}|\bsqlcmd\b[^\n]{0,120}?\s-P\s{0,3}|\s-(?:Password|Pass|Passwd)\s{1,3})[\"']?([^\s\"'<>${}/*-][^\s\"'<>${}]{4,80})",
        2.3,
        ignore_case=True,
    ),
    token_format("literal-secret", "--from-literal -e --env --build-arg --set", r"--?(?:from-literal|e|env|build-arg|set(?:-string)?)[= ]{1,2}[\"']?[\w.-]{0,40}(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key)[\w.-]{0,6}=[\"']?([^\s\"'<>${}]{6,200})", 2.3, ignore_case=True),
    token_format(
        "spoken-password",
        "password passwd passphrase passcode pwd",
        r"\b(?:password|passwd|passphrase|passcode|pwd)(?: (?:for|of|to|on) [\w .@'-]{1,40}?)?(?:\s{0,2}:\s{1,2}|\s{1,2}(?:is|was)\s{1,2}(?:now |set to )?)[\"'`]?([^\s\"'`<>${}(),;]{6,80})(?=[\"'`.,;)]?(?:\s|$))",
        2.3,
        ignore_case=True,
    ),
    token_format(
        "spoken-login",
        "login user admin account credentials",
        r"\b(?:login|log in|user(?:name)?|admin|account|credentials)\b[^\n]{1,40}?\b(?:password|passwd|pass|pw)\s{1,2}(?=[^\s]{0,40}[A-Z])(?=[^\s]{0,40}[a-z])(?=[^\s]{0,40}\d)([^\s\"'`<>${}(),;=:]{7,40})(?=[.,;)]?(?:\s|$))",
        2.3,
    ),
    token_format("softlayer-key", "softlayer.com", r"softlayer\.com/soap/v3(?:\.1)?/([a-z0-9]{64})", 3.0),
    token_format("dsn-secret", "sentry.io", r"https://([a-f0-9]{32}:[a-f0-9]{32})@[\w.-]{0,60}sentry\.io", 2.5),
    token_format("query-secret", "?", r"[?&](?:access_token|api_?key|apikey|client_secret|auth_token|token|secret|password|passwd|pwd|private_token|sig|signature|key|appid|subscription-key|x-amz-signature)=([A-Za-z0-9_.~%+/-]{12,400})(?![A-Za-z0-9_.~%+/{<$-])", 3.0, ignore_case=True),
    token_format("header-value", "x-", r"\bx-[\w-]{0,40}(?:key|token|secret|auth)[\"']?\s{0,3}[:=,]\s{0,3}[\"']?([A-Za-z0-9_.~+/=-]{12,400})", 3.0, ignore_case=True),
    token_format("ssws-token", "ssws", r"\bSSWS\s{1,3}([A-Za-z0-9_-]{30,60})", 3.0),
    token_format("service-value", _SERVICES, _service_pattern(), 3.0, ignore_case=True),
)  # fmt: skip
