"""Dangers of a shell command told by its program and one pattern over its arguments.  Imported by `verdicts`.

A row lists the programs it is for; the pattern is tried against the arguments joined by blanks.  What needs more thought
than that (targets of a deletion, git's verbs, pipes) has a function in `verdicts`.  Standard library only.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.needles import Rule

__all__ = ["NAMED_PROGRAMS", "by_program"]

_SECURITY = r"(?:firewalld|ufw|auditd|apparmor|fail2ban|clamav|falcon\w*|osqueryd?|r?syslog\w*|selinux|crowdstrike|wazuh\S*|ossec|sysmon|tripwire|snort|suricata|rkhunter|chkrootkit|mdatp|sentinel\w*|carbonblack|windefend|mpssvc|wscsvc)"
_OUTPUT = r"(?:\$\(|`)\s{0,2}(?:cat|base64|env|printenv|whoami|id|hostname|uname|xxd|tar|gzip|history|ls|head|tail)\b"

_ROWS: tuple[tuple[str, str, float, str, str], ...] = (
    ("volume-destroy", "destruction", 3.0, "lvremove vgremove pvremove badblocks", r"\S"),
    ("volume-destroy", "destruction", 3.0, "zfs zpool mdadm cryptsetup hdparm nvme diskutil diskpart btrfs", r"\b(?:destroy|luksErase|erase|format|sanitize|eraseDisk|reformat|zeroDisk|secureErase|clean|subvolume delete|labelclear)\b|--(?:zero-superblock|security-erase)"),
    ("account-delete", "destruction", 2.5, "userdel deluser groupdel", r"\S"),
    ("kernel-crash", "destruction", 3.0, "sysctl tee", r"kernel\.panic|sysrq-trigger|kernel\.(?:randomize_va_space|yama\S+|kptr_restrict|dmesg_restrict|modules_disabled)\s?=\s?0"),
    ("machine-destroy", "destruction", 2.5, "virsh vagrant multipass lxc lxd proxmox qm prlctl vboxmanage VBoxManage podman docker-compose", r"\b(?:undefine|destroy|delete|unregistervm --delete|down -v|system prune|rm -fa?|volume rm)\b"),
    ("container-wipe", "destruction", 2.5, "docker podman nerdctl", r"\b(?:rm|rmi|kill|stop)\b.*(?:\$\(|`)\s?(?:docker|podman|nerdctl) (?:ps|images)|\bsystem prune\b.*-\w*(?:a|f|-all|-volumes)"),
    ("container-wipe", "destruction", 2.0, "docker podman nerdctl", r"\bvolume (?:rm|prune)\b|compose down.* -v\b|\bnetwork prune"),
    ("kill-others", "sabotage", 2.5, "scancel", r"(?:-u|--user|-A|--account|-p|--partition)[= ]?(?!\$|me\b|`|<|you\b)[a-z]"),
    ("kill-others", "sabotage", 2.5, "pkill killall", r"(?:-[a-zA-Z]*u|--user)[= ]?(?!\$|me\b|`|<|you\b)[a-z]"),
    ("container-escape", "privilege", 2.5, "docker podman nerdctl nsenter unshare kubectl", r"--privileged|(?:-v|--volume|--mount)[= ]\S*(?:/:/|source=/,|/etc:|/root:|/var/run/docker\.sock)|--pid[= ]host|--net(?:work)?[= ]host.*--privileged|--cap-add[= ](?:all|sys_admin|sys_ptrace)|-t 1 -m|--target 1\b|hostPID|--security-opt[= ]\S*unconfined"),
    ("cluster-destroy", "destruction", 2.5, "kubectl oc k", r"\bdelete\b.* (?:svc|services?|ingress|secrets?|configmaps?|statefulsets?|sts|daemonsets?|ds|pods?|jobs?|deploy|crd|pv|pvc|namespace|ns|all)\b.*(?:--all|--force|\S+)|\bscale\b.*--replicas[= ]0|\bcordon\b|\bdrain\b"),
    ("cluster-credentials", "credentials", 2.5, "kubectl oc", r"\bget (?:secrets?|sa|serviceaccounts?)\b.*(?:-o|--output|-A\b|--all-namespaces|--template|jsonpath)|clusterrolebinding\b.*cluster-admin|\bcreate token\b|\bconfig view\b.*--raw|\bcp\b.*(?:serviceaccount|/etc/|\.kube)"),
    ("cloud-destroy", "destruction", 2.5, "aws gcloud az gsutil oci doctl linode-cli hcloud flyctl fly heroku vercel netlify railway firebase supabase wrangler eb ibmcloud aliyun openstack", r"\b(?:delete|destroy|terminate|purge|remove|rb|nuke|schedule-key-deletion|deregister|disable-key)\b|\b(?:delete|terminate|destroy|remove|purge|deregister|stop|disable)-[a-z-]{2,40}\b|\bs3 rm\b.*--recursive|\bapps:destroy\b|\bpg:reset\b|\bdb reset\b|\brm -r"),
    ("cloud-open", "privilege", 2.5, "aws gcloud az gsutil gh", r"0\.0\.0\.0/0|\ballUsers\b|\ballAuthenticatedUsers\b|public-read|--acl[= ]public|put-bucket-(?:acl|policy)|delete-public-access-block|put-public-access-block.*false|AdministratorAccess|roles/(?:owner|editor)|--role[= ]\"?owner|--visibility[= ]public|--public\b.*--confirm|iam ch allUsers|publicly-accessible\b|add-permission\b.*\"?\*|--source-ranges[= ]0\.0\.0\.0"),
    ("cloud-untraced", "sabotage", 3.0, "aws gcloud az", r"cloudtrail (?:stop-logging|delete-trail|put-event-selectors)|guardduty (?:delete|update)-detector|delete-flow-logs|config(?:service)? (?:stop|delete)-configuration-recorder|logging sinks (?:delete|update)|monitor (?:diagnostic-settings|log-profiles) delete|securityhub disable|delete-log-(?:group|stream)|disable-alarm-actions|delete-alarms"),
    ("cloud-credentials", "credentials", 2.5, "aws gcloud az gh vault op heroku doppler", r"iam (?:create-access-key|create-user|create-login-profile|attach-\S+|put-\S+|update-assume-role-policy)|sts get-session-token|secretsmanager (?:get|batch-get)-secret|ssm get-parameters?\b.*--with-decryption|iam service-accounts keys create|secrets versions access|keyvault secret (?:show|download|list)|\bkv get\b|\bitem get\b|secrets download|\bconfig(?::get)?\b -s|configure export-credentials|ad sp create|storage account keys list"),
    ("cloud-copy-out", "exfiltration", 2.0, "aws gsutil gcloud azcopy rclone s3cmd mc", r"\b(?:cp|sync|mv|copy|put|move)\b.*(?:s3|gs|https?)://\S*(?:attacker|evil|exfil|leak|loot|drop|external|stolen|public)|\b(?:cp|sync|copy|put)\b\s.{0,80}(?:\.ssh|\.aws|\.env\b|/etc/|id_rsa|credentials|secrets?)"),
    ("output-in-request", "exfiltration", 3.0, "curl wget http https", rf"(?:(?:-d|--data[\w-]*|-F|--form|--post-data|--body-data)[ =]|https?://)\S{{0,200}}?{_OUTPUT}"),
    ("nmap-put", "exfiltration", 3.0, "nmap", r"http-put|--script[= ]\S*(?:exploit|brute|vuln|http-shellshock)|os\.execute"),
    ("untraced-shell", "sabotage", 2.5, "set export unset history HISTFILE journalctl dmesg auditctl logrotate last utmpdump", r"\+o history|HISTFILE(?:=/dev/null|=\s|=$|\b$)|HISTSIZE=0|HISTCONTROL=ignore\S+.*HIST|--vacuum-(?:time|size|files)|\A-C\Z|\A-c\Z|\A-cw?\Z|-e ?0\b|\A-D\b|--rotate"),
    ("log-wipe", "sabotage", 3.0, "rm shred truncate unlink ln cp mv tee dd cat find sed", r"(?:/var/log(?:/(?:\*|\S*(?:auth|secure|syslog|messages|wtmp|btmp|lastlog|audit|access|nginx|apache|mysql|journal)\S*)|/?(?=\s|\Z))|\.(?:bash|zsh|sh|python|mysql|psql)_history\b|\$HISTFILE)(?=.*|\Z)"),
    ("protection-off", "sabotage", 3.0, "systemctl service kill killall pkill launchctl apt apt-get yum dnf pacman brew rc-service update-rc.d chkconfig sc net taskkill modprobe rmmod", rf"\b(?:stop|disable|mask|unload|remove|purge|-r|erase|delete|off|/im|config|uninstall|-9|-f|-KILL)\b.*\b{_SECURITY}|\A(?:-\S+ ){{0,2}}{_SECURITY}\b"),
    ("protection-off", "sabotage", 3.0, "pfctl spctl csrutil aa-teardown aa-disable aa-complain auditctl defaults netsh nvram ipfw esxcli", r"\A-d\b|--master-disable|--global-disable|\bdisable\b|\A\Z|/etc/apparmor|-e 0|com\.apple\.alf\b.*-int 0|\boff\b|LSQuarantine -bool (?:false|NO)|opmode=disable|boot-args.*amfi"),
    ("capability", "privilege", 3.0, "setcap chattr mount pkexec capsh setfacl", r"cap_(?:setuid|setgid|sys_admin|dac_override|sys_ptrace)|\A-i\b.*(?:/etc|passwd|shadow)|remount,rw|\A/bin/(?:ba)?sh|--gid=0 --uid=0|u:\S+:rwx? /etc"),
    ("trust-off", "sabotage", 2.0, "git npm pip pip3 yarn conda export composer gem go", r"http\.sslVerify[= ]\"?false|strict-ssl[= ]\"?false|ssl_verify[= ]\"?false|NODE_TLS_REJECT_UNAUTHORIZED=\"?0|GIT_SSL_NO_VERIFY=|PYTHONHTTPSVERIFY=0|GONOSUMCHECK|GOFLAGS=-insecure|GONOSUMDB=\*|global\.(?:index-url|trusted-host)|config set registry http://|disable-tls"),
    ("attack-tool", "remote-control", 2.5, "nikto gobuster ffuf wfuzz dirb responder crackmapexec netexec nxc bloodhound-python linpeas.sh linpeas winpeas ettercap arpspoof aircrack-ng airodump-ng wifite evil-winrm rubeus certipy kerbrute slowloris hping3 medusa patator ncrack beef setoolkit searchsploit commix xsser dnsspoof bettercap mitmproxy chisel frpc gs-netcat pwncat weevely sliver empire covenant ethminer nbminer cgminer bfgminer lolminer phoenixminer nanominer t-rex minergate-cli", r"\S"),
    ("attack-tool", "remote-control", 2.0, "nmap masscan zmap tcpdump tshark", r"-s[SUAV]\b.{0,200}?\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|--rate[= ]\d{4}|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/\d{1,2}|-p-|-w \S+|-i any"),
    ("tunnel", "remote-control", 2.0, "ngrok cloudflared code bore localtunnel lt serveo tmate ssh autossh", r"\A(?:http|tcp|tunnel)\b|--port|\A-F\b|-[A-Za-z]*R ?\S*:|-R \d|serveo\.net|localhost\.run|\A\Z"),
    ("serve-files", "exfiltration", 2.0, "python python3 php ruby busybox npx twistd", r"-m http\.server\b.*(?:--directory|-d)[= ](?:/|~)|-S 0\.0\.0\.0\S* -t /|httpd\b.*-h /|-run -e ?httpd /|http-server /"),
    ("database-wipe", "destruction", 3.0, "mongo mongosh mysql mariadb psql sqlite3 redis-cli cqlsh influx clickhouse-client etcdctl sqlcmd bq curl http wget", r"dropDatabase\(|\.drop\(\)|deleteMany\(\s?\{\s?\}|\.remove\(\{\s?\}|(?i:drop (?:database|schema|table|keyspace|user|measurement)|truncate (?:table )?\w|delete from \w+\s?(?:;|\"|'|$))|(?i:flushall|flushdb|config set (?:dir|dbfilename|requirepass))|\bdel\b.*(?:--prefix|--from-key)|-X ?DELETE\b.*(?::9200|/_all|/\*)|\brm -r -f\b"),
    ("grant-all", "privilege", 2.5, "mysql mariadb psql sqlcmd", r"(?i:grant all(?: privileges)? on \*\.\*|with grant option|alter user .{1,40} (?:superuser|identified|password)|create (?:user|role) .{1,60}superuser|copy .{1,80} (?:to|from) program|sp_addsrvrolemember|xp_cmdshell)"),
    ("windows-user", "privilege", 3.0, "net net1", r"(?i:\buser\b.*/add|localgroup\b.*/add|\buser\b \S+ \S+\Z|accounts /\w+|stop (?:\"?windows defender|mpssvc|wscsvc|eventlog))"),
    ("windows-registry", "persistence", 3.0, "reg", r"(?i:\badd\b.*(?:\\run\b|\\runonce|winlogon|image file execution|disableantispyware|enablelua|disabletaskmgr|\\policies\\)|\bdelete\b.*(?:hklm|hkey_local_machine|hkcu)|\bsave\b.*hklm)"),
    ("windows-rights", "privilege", 2.5, "icacls takeown cacls", r"(?i:everyone:\(?\S*f|/grant\b.*:f|/f\b.*(?:windows|system32|/r))"),
    ("windows-service", "persistence", 2.5, "sc wmic", r"(?i:\bcreate\b.*binpath|\bconfig\b.*binpath|process call create|shadowcopy delete|\bdelete\b.*\b(?:windefend|eventlog|mpssvc))"),
    ("windows-wipe", "destruction", 3.0, "format diskpart fsutil cipher vssadmin wbadmin bcdedit del rd rmdir erase", r"(?i:\A[a-z]:|usn deletejournal|/w:|delete (?:shadows|catalog|systemstatebackup)|recoveryenabled no|ignoreallfailures|/s\b.*(?:/q|c:\\)|/q\b.*/s\b)"),
    ("keychain-read", "credentials", 3.0, "security cmdkey vaultcmd secret-tool kwallet-query pass gpg ssh-add klist dpapi", r"dump-keychain|find-(?:generic|internet)-password\b.*-[wg]|/list\b|/listcreds|search --all|lookup\b|--export-secret-keys|\A-L\b.*>"),
    ("screen-capture", "exfiltration", 2.0, "screencapture scrot import ffmpeg arecord xinput xdotool logkeys", r"-x\b|-f x11grab|-f avfoundation|-window root|test-xi2 --root|--start"),
    ("key-copy", "persistence", 2.5, "ssh-copy-id", r"\S"),
    ("startup-service", "persistence", 2.0, "systemctl launchctl update-rc.d chkconfig rc-update", r"\b(?:enable|load|bootstrap|defaults|add)\b.*(?:/tmp/|\bbackdoor|\bmalicious|\bminer|\bevil|\bpayload|\bbeacon|persist|\.hidden|\bimplant|/dev/shm)"),
)  # fmt: skip

_RULES: dict[str, list[tuple[str, str, float, Rule]]] = {}
for _rule, _family, _weight, _programs, _source in _ROWS:
    _row = (_rule, _family, _weight, Rule(_source))
    for _program in _programs.split():
        _RULES.setdefault(_program, []).append(_row)

NAMED_PROGRAMS = frozenset(_RULES)
"""Programs that have a row."""
_HELP = re.compile(r"(?:^| )(?:--help|-h|--version|--dry-?run)(?: |$)")


def by_program(program: str, args: tuple[str, ...]) -> Iterator[tuple[str, str, float]]:
    """Yields rule, family and weight of every row that a command fits."""
    rows = _RULES.get(program)
    if rows is None:
        return
    joined = " ".join(args)
    if _HELP.search(joined):
        return
    for rule, family, weight, pattern in rows:
        if pattern.expression.search(joined):
            yield rule, family, weight
