"""Token formats that vendors publish, keys in PEM form, credentials in URLs, headers and command lines.

Used by `secret_rules`; plain data, floor 0.  Prefixes and lengths come from the vendors' own documentation of their
tokens.  Each rule names a lower-case keyword that must occur before its pattern is tried.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class TokenFormat:
    """A published token format; group 1 of `pattern`, where there is one, is the secret itself."""

    rule: str
    keywords: tuple[str, ...]
    source: str
    flags: int = 0
    entropy: float = 2.5

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Returns the compiled expression: a hundred of them cost every command 20 ms, and few texts hold a keyword."""
        return re.compile(self.source, self.flags)

    def possible(self, lower: str) -> bool:
        """Returns whether `lower`, the text in lower case, holds one of the keywords."""
        for keyword in self.keywords:  # noqa: SIM110 - a plain loop is twice as fast, and this runs 100 times per text
            if keyword in lower:
                return True
        return False


LEFT = r"(?<![A-Za-z0-9_])"
RIGHT = r"(?![A-Za-z0-9])"


def token_format(
    rule: str, keywords: str, pattern: str, entropy: float = 2.5, *, ignore_case: bool = False
) -> TokenFormat:
    """Makes a row; `keywords` are separated by blanks."""
    return TokenFormat(rule, tuple(keywords.split()), pattern, re.I if ignore_case else 0, entropy)


FORMATS: tuple[TokenFormat, ...] = (
    token_format(
        "aws-access-key-id",
        "akia asia abia acca a3t",
        LEFT + r"((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7][A-Z0-9]{15})" + RIGHT,
        2.8,
    ),
    token_format(
        "aws-bedrock-key",
        "absk bedrock-api-key-",
        LEFT + r"((?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{80,300}={0,2})",
        2.0,
    ),
    token_format("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", LEFT + r"(gh[pousr]_[A-Za-z0-9]{36,255})" + RIGHT),
    token_format("github-fine-grained", "github_pat_", LEFT + r"(github_pat_[A-Za-z0-9_]{40,255})" + RIGHT),
    token_format(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glsoat- glcbt- glagent- glft- glimt- gloas- glffct- gr1348941",
        LEFT
        + r"((?:gl(?:pat|dt|rt|ptt|soat|cbt|agent|ft|imt|ffct|oas)-[A-Za-z0-9_.-]{20,100}|GR1348941[A-Za-z0-9_-]{20}))",
    ),
    token_format("gitlab-session", "_gitlab_session", r"_gitlab_session=([0-9a-z]{32})" + RIGHT),
    token_format(
        "slack-token",
        "xox xapp-",
        LEFT + r"((?:xox[abeoprs](?:\.xox[bp])?-|xapp-)[A-Za-z0-9-]{14,300})(?![A-Za-z0-9#*-])",
        2.2,
        ignore_case=True,
    ),
    token_format(
        "slack-webhook",
        "hooks.slack.com",
        r"(hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{23,80})",
    ),
    token_format("discord-webhook", "discord", r"(discord(?:app)?\.com/api/webhooks/\d{15,22}/[A-Za-z0-9_-]{50,100})"),
    token_format(
        "teams-webhook",
        "webhook.office.com",
        r"(webhook\.office\.com/webhook[a-z0-9]{0,4}/[a-z0-9@/-]{60,220})",
        ignore_case=True,
    ),
    token_format(
        "openai-key",
        "t3blbkfj sk-",
        LEFT + r"(sk-(?:(?:proj|svcacct|admin|None)-)?[A-Za-z0-9_-]{20,90}T3BlbkFJ[A-Za-z0-9_-]{20,90})",
    ),
    token_format("anthropic-key", "sk-ant-", LEFT + r"(sk-ant-(?:api|admin|oat|sid)\d{2}-[A-Za-z0-9_-]{40,120})"),
    token_format(
        "sk-key",
        "sk-",
        LEFT + r"(sk-(?:(?:proj|or|lf|live|test|prod|svcacct|admin)-)?(?:v\d-)?[A-Za-z0-9]{24,100})" + RIGHT,
        3.0,
    ),
    token_format("groq-xai-key", "gsk_ xai-", LEFT + r"((?:gsk_|xai-)[A-Za-z0-9]{48,90})" + RIGHT),
    token_format(
        "huggingface-token",
        "hf_ api_org_",
        LEFT + r"((?:hf_|api_org_)(?=[a-z0-9]{0,33}[A-Z])(?=[A-Z0-9]{0,33}[a-z])[A-Za-z0-9]{34})" + RIGHT,
        3.0,
    ),
    token_format("perplexity-replicate", "pplx- r8_", LEFT + r"(pplx-[A-Za-z0-9]{48}|r8_[A-Za-z0-9]{37})" + RIGHT),
    token_format(
        "wandb-key",
        "wandb",
        r"wandb[\w .-]{0,30}[=: \"']{1,5}(?:local-)?([a-f0-9]{40})" + RIGHT,
        3.0,
        ignore_case=True,
    ),
    token_format("google-api-key", "aiza", LEFT + r"(AIza[A-Za-z0-9_-]{35})" + RIGHT, 3.0),
    token_format("google-oauth", "gocspx- ya29.", LEFT + r"(GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,300})"),
    token_format("google-service-account", "service_account", r"\"type\"\s{0,4}:\s{0,4}\"(service_account)\"", 0.0),
    token_format(
        "stripe-key",
        "sk_ rk_ whsec_",
        LEFT + r"((?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{10,120}|whsec_[A-Za-z0-9+/=]{24,80})" + RIGHT,
    ),
    token_format("square-token", "eaaa sq0", LEFT + r"(EAAA[A-Za-z0-9_+=-]{56,62}|sq0[a-z]{3}-[A-Za-z0-9_-]{22,43})"),
    token_format("facebook-token", "eaam eaac", LEFT + r"(EAA[MC][A-Za-z0-9]{60,300})" + RIGHT, 3.0),
    token_format(
        "facebook-app-token",
        "facebook fb_ access_token",
        r"(?<!\d)(\d{15,16}\|[A-Za-z0-9_-]{26,40})(?![A-Za-z0-9_-])",
        3.0,
        ignore_case=True,
    ),
    token_format("twilio-key", "sk ac", LEFT + r"((?:SK|AC)[0-9a-f]{32})" + RIGHT, 3.0),
    token_format("sendgrid-key", "sg.", LEFT + r"(SG\.[A-Za-z0-9_.=-]{60,70})"),
    token_format(
        "mailgun-mailchimp",
        "key- pubkey- -us",
        LEFT + r"((?:pub)?key-[a-f0-9]{32}|[a-z0-9]{32}-us\d{1,2}|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8})" + RIGHT,
        3.0,
    ),
    token_format("sendinblue-key", "xkeysib- xsmtpsib-", r"(x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16})"),
    token_format(
        "azure-client-secret",
        "q~",
        r"(?<![A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~-])",
        3.0,
    ),
    token_format(
        "azure-storage-key",
        "accountkey sharedaccesskey",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,90}={0,2})",
        3.0,
        ignore_case=True,
    ),
    token_format("azure-sas", "sig=", r"[?&]sig=([A-Za-z0-9%+/]{40,90}(?:=|%3[dD])?)", 3.0),
    token_format("azure-devops", "azdo", r"([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})"),
    token_format("npm-pypi-token", "npm_ pypi-", LEFT + r"(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,1000})"),
    token_format(
        "rubygems-clojars",
        "rubygems_ clojars_",
        LEFT + r"(rubygems_[a-f0-9]{48}|CLOJARS_[a-z0-9]{60})" + RIGHT,
        ignore_case=True,
    ),
    token_format("docker-token", "dckr_", LEFT + r"(dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,32})" + RIGHT),
    token_format("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", LEFT + r"(do[opr]_v1_[a-f0-9]{64})" + RIGHT),
    token_format("cloudflare-origin", "v1.0-", LEFT + r"(v1\.0-[a-f0-9]{24}-[a-f0-9]{146})"),
    token_format(
        "vault-token",
        "hvs. hvb. hvr. s.",
        LEFT + r"(hv[sbr]\.[A-Za-z0-9_-]{24,300}|s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24})" + RIGHT,
        3.2,
    ),
    token_format("terraform-token", "atlasv1", r"([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})", ignore_case=True),
    token_format("pulumi-databricks", "pul- dapi", LEFT + r"(pul-[a-f0-9]{40}|dapi[a-f0-9]{32}(?:-\d)?)" + RIGHT, 3.0),
    token_format(
        "doppler-token",
        "dp.",
        LEFT + r"(dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44})" + RIGHT,
    ),
    token_format(
        "grafana-token",
        "glc_ glsa_ eyjrijoi",
        LEFT
        + r"(glc_[A-Za-z0-9+/]{32,400}={0,2}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|eyJrIjoi[A-Za-z0-9]{70,400}={0,2})",
    ),
    token_format(
        "newrelic-key",
        "nrak- nrjs- nrii- nral nraa-",
        LEFT + r"(NR(?:AK|JS|II|AA|RA)-[A-Za-z0-9_-]{18,42}|[a-f0-9]{36}NRAL)",
        ignore_case=True,
    ),
    token_format(
        "datadog-sentry",
        "sntrys_ sntryu_ ddp_",
        LEFT + r"(sntrys_[A-Za-z0-9+/=_]{60,300}|sntryu_[a-f0-9]{64}|ddp_[A-Za-z0-9]{36})",
    ),
    token_format("dynatrace-token", "dt0c01.", r"(dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})", ignore_case=True),
    token_format("postman-key", "pmak-", LEFT + r"(PMAK-[a-f0-9]{24}-[a-f0-9]{34})", ignore_case=True),
    token_format(
        "prefect-linear",
        "pnu_ lin_api_ lin_oauth_",
        LEFT + r"(pnu_[a-zA-Z0-9]{36}|lin_(?:api|oauth)_[A-Za-z0-9]{40,64})" + RIGHT,
    ),
    token_format(
        "notion-airtable",
        "ntn_ pat secret_",
        LEFT + r"(ntn_\d{11}[A-Za-z0-9]{32,35}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|secret_[A-Za-z0-9]{43})" + RIGHT,
    ),
    token_format(
        "shopify-token", "shpat_ shpca_ shppa_ shpss_", LEFT + r"(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})" + RIGHT
    ),
    token_format(
        "atlassian-token", "atatt3 atctt3 atbb", LEFT + r"(AT[AC]TT3[A-Za-z0-9_=-]{60,250}|ATBB[A-Za-z0-9]{32})"
    ),
    token_format(
        "sourcegraph-token",
        "sgp_ sourcegraph",
        LEFT + r"(sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40})" + RIGHT,
    ),
    token_format(
        "telegram-bot",
        "telegram bot :aa",
        r"(?<![0-9A-Za-z:])(\d{8,10}:[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])",
        3.0,
    ),
    token_format(
        "discord-token",
        ".",  # three parts of fixed lengths: the form tells, whatever stands around it
        r"(?<![\w.-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})(?![\w.-])",
        3.5,
    ),
    token_format(
        "age-key",
        "age-secret-key-1",
        r"(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})",
        ignore_case=True,
    ),
    token_format(
        "1password-token",
        "ops_eyj a3-",
        LEFT
        + r"(ops_eyJ[A-Za-z0-9+/_-]{100,1200}={0,3}|A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5})",
    ),
    token_format("planetscale-token", "pscale_", LEFT + r"(pscale_(?:tkn|oauth|pw)_[A-Za-z0-9=._-]{32,64})"),
    token_format(
        "alibaba-tencent-key", "ltai akid", LEFT + r"(LTAI[A-Za-z0-9]{12,24}|AKID[A-Za-z0-9]{28,40})" + RIGHT, 3.0
    ),
    token_format(
        "flutterwave-paystack",
        "flwseck flwpubk pk_ xnd_",
        LEFT + r"(FLW(?:SECK|PUBK)_TEST-[a-h0-9]{12,40}(?:-X)?|FLWSECK_TEST[a-h0-9]{12})",
        ignore_case=True,
    ),
    token_format(
        "shippo-easypost",
        "shippo_ ezak ezta eztk",
        LEFT + r"(shippo_(?:live|test)_[a-f0-9]{40}|EZ[AT]K[A-Za-z0-9]{54,56})",
    ),
    token_format(
        "duffel-frameio-lob",
        "duffel_ fio-u- live_ test_",
        LEFT
        + r"(duffel_(?:test|live)_[A-Za-z0-9_=-]{43}|fio-u-[A-Za-z0-9_=-]{64}|(?:live|test)_(?:pub_)?[a-f0-9]{31,40})",
        ignore_case=True,
    ),
    token_format(
        "adobe-yandex",
        "p8e- t1. aqvn ycaj",
        LEFT
        + r"(p8e-[a-z0-9]{32}|t1\.[A-Z0-9a-z_-]{5,}[=]{0,2}\.[A-Z0-9a-z_-]{86}[=]{0,2}|AQVN[A-Za-z0-9_-]{35,38}|YCAJ[A-Za-z0-9_-]{36})"
        + RIGHT,
        ignore_case=True,
    ),
    token_format("heroku-key", "hrku-", LEFT + r"(HRKU-[A-Za-z0-9_-]{36,70})"),
    token_format(
        "fly-token",
        "fo1_ fm1",
        LEFT + r"(fo1_[A-Za-z0-9_-]{43}|fm1[ar]_[A-Za-z0-9+/]{100,400}={0,3}|fm2_[A-Za-z0-9+/]{100,400}={0,3})",
    ),
    token_format(
        "settlemint-harness",
        "sm_ pat. sat. s-s4t2",
        LEFT
        + r"(sm_(?:aat|pat|sat)_[A-Za-z0-9]{16}|[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}|s-s4t2(?:ud|af)-[a-f0-9]{64})",
    ),
    token_format("artifactory-key", "akcp cmvmd", LEFT + r"(AKCp[A-Za-z0-9]{16,75}|cmVmd[A-Za-z0-9]{59})" + RIGHT),
    token_format(
        "readme-typeform-openshift",
        "rdme_ tfp_ sha256~",
        LEFT + r"(rdme_[a-z0-9]{70}|tfp_[A-Za-z0-9_.=-]{40,70}|sha256~[A-Za-z0-9_-]{15,60})",
    ),
    token_format(
        "infracost-scalingo-maxmind",
        "ico- tk-us- _mmk",
        LEFT + r"(ico-[A-Za-z0-9]{32}|tk-us-[A-Za-z0-9_-]{48}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)",
    ),
    token_format(
        "clickhouse-deno-supabase", "4b1d ddp_ sbp_", LEFT + r"(4b1d[A-Za-z0-9]{38}|sbp_[a-f0-9]{40})" + RIGHT
    ),
    token_format(
        "private-key",
        "private key",
        r"(-----BEGIN[ A-Z0-9_-]{0,80}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){40,12000}-----END[ A-Z0-9_-]{0,80}-----)",
        3.0,
    ),
    token_format(
        "private-key-open",
        "private key",
        r"(-----BEGIN[ A-Z0-9_-]{0,80}PRIVATE KEY(?: BLOCK)?-----[\sA-Za-z0-9+/=\\,:.]{64,4000}(?!-----END))",
        3.0,
    ),
    token_format(
        "jwt",
        "eyj zxlk",
        LEFT
        + r"(eyJ[A-Za-z0-9_-]{14,2000}\.eyJ[A-Za-z0-9_/+-]{14,4000}\.[A-Za-z0-9_/+-]{10,1000}=?|ZXlK[A-Za-z0-9+/]{100,4000}={0,2})",
        3.0,
    ),
    token_format(
        "kubernetes-secret",
        "kind: secret",
        r"(?s)kind:\s{0,4}[\"']?Secret.{0,600}?\bdata:\s{1,20}[\w.-]{1,80}:\s{0,4}([A-Za-z0-9+/]{8,4000}={0,3})",
        2.5,
        ignore_case=True,
    ),
    token_format(
        "password-hash",
        "$2 $6$ $5$ $1$ $argon2 $apr1$",
        r"(\$(?:2[aby]\$\d\d\$[./A-Za-z0-9]{53}|[156]\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{22,86}|apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}|argon2id?\$[\w=,$]{8,60}\$[A-Za-z0-9+/]{20,90}))",
        3.0,
    ),
    token_format(
        "gitea-forgejo-basic",
        "basic ",
        r"(?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?i:basic)\s{1,4}([A-Za-z0-9+/]{8,400}={0,2})",
        2.5,
        ignore_case=True,
    ),
    token_format(
        "bearer-header",
        "authorization",
        r"authorization[\"']?\s{0,4}[:=,]\s{0,4}[\"']?(?:(?:bearer|token|api-?token|apikey|key|digest|splunk|ssws)\s{1,4})?[\"']?([A-Za-z0-9_.~+/=:@-]{12,2000})",
        3.0,
        ignore_case=True,
    ),
    token_format(
        "bearer-header",  # without its header's name, as people paste it
        "bearer ",
        r"\bbearer\s{1,4}[\"']?([A-Za-z0-9_.~+/=-]{20,2000})",
        3.0,
        ignore_case=True,
    ),
    token_format(
        "header-token",
        "token: key: secret:",
        r"-(?:H|-header)[= ]{1,4}[\"'](?:[\w-]{0,40}(?:token|key|secret|auth)):\s{0,4}(?:bearer |token )?([A-Za-z0-9_.~+/=:@-]{8,2000})[\"']",
        2.5,
        ignore_case=True,
    ),
    token_format(
        "curl-user",
        "curl",
        r"\bcurl\b[^\n]{0,400}?\s(?:-u|--user|-U|--proxy-user)[= ]{1,3}[\"']?[^\s:\"'$<{]{0,60}[\"']?:[\"']?([^\s\"'$<{:][^\s\"']{3,80})",
        1.5,
    ),
    token_format(
        "curl-user-lead",
        "curl",
        r"\bcurl\b[^\n]{0,400}?\s(?:-u|--user)[= ]{1,3}[\"']([^\s:\"'$<{]{8,80}):[\"']",
        3.0,
    ),
    token_format(
        "url-password",
        "://",
        r"[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>$]{0,80}:([^\s/@\"'<>$:]{3,120})@[\w.-]{1,200}",
        1.5,
        ignore_case=True,
    ),
    token_format(
        "sidekiq-url",
        "contribsys.com",
        r"https?://([a-f0-9]{8}:[a-f0-9]{8})@(?:gems|enterprise)\.contribsys\.com",
        1.0,
        ignore_case=True,
    ),
    token_format(
        "connection-string",
        "pwd= password=",
        r"(?:server|data source|host|user id|uid|user)\s{0,2}=[^\n]{1,200}?;\s{0,2}(?:pwd|password)\s{0,2}=\s{0,2}([^\s;\"'<>${]{4,80})",
        1.5,
        ignore_case=True,
    ),
    token_format(
        "cli-password",
        "--password --token --api-key --secret --passphrase -p",
        r"\s--(?:password|passwd|passphrase|token|api-?key|secret|auth-token|access-token)[= ]{1,2}[\"']?([^\s\"'<>${\[(-][^\s\"'<>${]{5,200})",
        2.6,
        ignore_case=True,
    ),
    token_format(
        "powershell-secure",
        "convertto-securestring",
        r"ConvertTo-SecureString\s{1,4}(?:-String\s{1,4})?[\"']([^\"'$\n]{4,200})[\"']",
        1.5,
        ignore_case=True,
    ),
    token_format(
        "netrc",
        "machine ",
        r"\bmachine\s{1,4}\S{1,100}\s{1,8}login\s{1,4}\S{1,100}\s{1,8}password\s{1,4}([^\s<${]{4,120})",
        1.5,
        ignore_case=True,
    ),
    token_format(
        "mysql-sshpass",
        "mysql sshpass pgpassword",
        r"(?:\bmysql(?:dump|admin)?\b[^\n]{0,200}?\s-p|\bsshpass\s{1,3}-p\s{0,3}|\bPGPASSWORD=)[\"']?([^\s\"'<>${-][^\s\"'<>${]{3,80})",
        1.5,
        ignore_case=True,
    ),
)
