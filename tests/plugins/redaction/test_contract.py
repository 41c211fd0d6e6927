"""The redactor `secrets` keeps every promise of its slot."""

from __future__ import annotations

from perpetual.testing.redactors import RedactorContract


class TestSecrets(RedactorContract):
    factory = "perpetual_redaction.redactor:build"
