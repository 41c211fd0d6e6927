"""Files that hold secrets, by their names and by what they hold; such files are never copied. Floor 0."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

__all__ = ["may_hold_secret", "names_secret"]

_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*",
    "*_rsa", "*_ed25519", "*_ecdsa", "*_dsa", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx",
    "*.ppk", "*.p8", "*.asc", "*.gpg", "*.age", "*.ovpn", "*.keytab", "*.tfstate", "*.tfstate.*", "*.tfvars",
    "*.agekey",
    "credentials", "credentials.*", "*credentials.json", "*credentials*.yaml", "*credentials*.yml", "*credentials*.ini",
    "*credentials*.toml", "*credentials*.csv", "client_secret*", "*service*account*.json", "secret", "secrets",
    "secret.*", "secrets.*", "*.secret", "*.secrets", "*_secrets.*", "*-secrets.*", "*_secret.*", "*-secret.*",
    ".netrc", "_netrc", "netrc", ".npmrc", ".pypirc", ".yarnrc", ".yarnrc.yml", ".dockercfg", ".dockerconfigjson",
    ".htpasswd", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".boto", ".s3cfg",
    ".vault-token",
    ".kaggle", "kaggle.json", "kubeconfig", "kubeconfig.*", "*.kubeconfig", "wandb_key*", "*api_key*", "*apikey*",
    "*token.txt", ".token", "*.token", "token", "token.json", "passwords*", "*password*.txt",
    "*accesskeys.csv",
    "application_default_credentials.json", ".hf_token", "hf_token*", ".*_history",
    "*.mobileprovision", "terraform.rc", ".terraformrc",
)  # fmt: skip
# Programs and prose about secrets; what they hold is looked at.
_SOURCES = (
    ".py",
    ".ipynb",
    ".c",
    ".h",
    ".cc",
    ".cpp",
    ".cu",
    ".rs",
    ".go",
    ".js",
    ".ts",
    ".java",
    ".md",
    ".rst",
    ".tex",
)
_TEMPLATES = re.compile(r"\.(?:example|sample|template|dist|pub)$|^(?:example|sample)[._-]")
_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure", ".gcloud", ".docker", ".kaggle", ".huggingface",
                      "secrets", ".secrets", ".password-store", ".vault"})  # fmt: skip
_CONTENT = re.compile(
    rb"-----BEGIN[ A-Z0-9_-]{0,80}PRIVATE KEY|AGE-SECRET-KEY-1|PuTTY-User-Key-File|openssh-key-v1"
    rb"|\"type\"\s{0,8}:\s{0,8}\"(?:service_account|authorized_user)\"|client-key-data\s{0,4}:"
    rb"|^machine\s{1,8}\S{1,200}\s{1,8}login\s|:_authToken\s{0,4}=|\"auths\"\s{0,8}:\s{0,8}\{",
    re.MULTILINE,
)


def names_secret(path: str) -> bool:
    """Returns whether a file of this relative path is kept for its secrets: a key, credentials, an environment."""
    *folders, name = path.replace("\\", "/").lower().split("/")
    if _TEMPLATES.search(name) or name.endswith(_SOURCES):
        return False
    if any(folder in _FOLDERS for folder in folders):
        return True
    return any(fnmatchcase(name, pattern) for pattern in _NAMES)


def may_hold_secret(path: str, content: bytes) -> bool:
    """Returns whether a file is to be left out of copies, by its path or by a private key in it."""
    return names_secret(path) or _CONTENT.search(content) is not None
