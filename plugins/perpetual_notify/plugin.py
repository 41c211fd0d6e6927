"""Entry point of the notifications: brings the slot `notifier`, four of them and `perpetual notify`; nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, Slot, Suite, Template, hookimpl

KINDS = ("stops", "decisions", "waits", "failures", "budget", "digest")
_DEFAULT = ["stops", "decisions", "waits"]


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `notifier`: ways to reach a person."""
    suite = Suite("perpetual_notify.testing:NotifierContract", fixture="notifier")
    template = Template(
        "perpetual config set plugins.notify.notifiers {0}", "one line of JSON in a file for each notice",
        {"path": ("str", '"~/notices.jsonl"', "the file; it is made where it is missing")},
        folder="perpetual_templates:notifier",
    )  # fmt: skip
    return [Slot("notifier", "perpetual_notifiers", "notifier", "perpetual_notify.notifier:Notifier", suite=suite,
                 template=template)]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_notifiers() -> list[Provider]:
    """Offers the desktop, e-mail, webhooks and commands."""
    webhook = {
        "url": Option("str", None, "The address, or where it is kept: env:NAME, file:PATH, keyring:SERVICE/USER.",
                      nullable=True),
        "secret": Option("str", None, "Where the key is kept by which the body is signed; null signs nothing.",
                         nullable=True, secret=True),
        "token": Option("str", None, "Where the bearer token is kept that the server wants; null sends none.",
                        nullable=True, secret=True),
        "shape": Option("str", "json", "What the server reads.", choices=("json", "ntfy", "slack")),
        "allow_http": Option("bool", False, "Whether the address may be http on another machine, unencrypted."),
        "timeout_s": Option("float", 10.0, "Seconds to wait for the server.", minimum=0.1, maximum=60),
    }  # fmt: skip
    mail = {
        "host": Option("str", None, "The mail server.", nullable=True),
        "port": Option("int", None, "Its port; null is 587, 465 with ssl, 25 with none.", nullable=True, minimum=1,
                       maximum=65535),
        "security": Option("str", "starttls", "How the connection is encrypted.", choices=("starttls", "ssl", "none")),
        "user": Option("str", None, "The name to log in with; null logs in with none.", nullable=True),
        "password": Option("str", None, "Where the password is kept.", nullable=True, secret=True),
        "sender": Option("str", None, "The address that it comes from; null is the user, or the first recipient.",
                         nullable=True),
        "to": Option("list", [], "The addresses that it goes to."),
        "allow_plain": Option("bool", False, "Whether `none` may be used to another machine, unencrypted."),
        "timeout_s": Option("float", 15.0, "Seconds to wait for the server.", minimum=0.1, maximum=60),
    }  # fmt: skip
    program = {
        "argv": Option("list", [], "The program and its words; it reads the notice as JSON."),
        "timeout_s": Option("float", 30.0, "Seconds until it is ended.", minimum=0.1, maximum=60),
    }
    return [
        Provider("notifier", "desktop", "perpetual_notify.desktop:build", "a notice on this machine's desktop",
                 requires=("dispatch",)),
        Provider("notifier", "email", "perpetual_notify.mail:build", "a mail by your mail server", options=mail),
        Provider("notifier", "webhook", "perpetual_notify.webhook:build", "a signed request: JSON, ntfy or Slack",
                 options=webhook),
        Provider("notifier", "command", "perpetual_notify.program:build", "a program of yours, with JSON on its input",
                 options=program),
    ]  # fmt: skip


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the notifiers in force, and how much they send."""
    return {
        "notifiers": Option("list", [], "Notifiers that are sent to, by name; none sends nothing."),
        "kinds": Option("list", _DEFAULT, "What is sent.", choices=KINDS),
        "per_hour": Option("int", 12, "Notices in an hour at most, for each notifier; the rest is folded into one.",
                           minimum=1, maximum=1000),
    }  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_companions() -> list[Provider]:
    """Offers what sends while the daemon runs."""
    return [Provider("companion", "notify", "perpetual_notify.companion:build", "sends notifications",
                     requires=("daemon",))]  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual notify`."""
    return [Provider("command", "notify", "perpetual_notify.command:notify",
                     "Send notices to you: test, list and send.", topic="project")]  # fmt: skip


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether notices reach you."""
    return [Provider("check", "notifications", "perpetual_notify.check:build", "whether notices arrive")]
