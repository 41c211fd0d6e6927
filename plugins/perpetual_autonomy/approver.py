"""The slot `approver`: what approves proposals in the loop beside the methodology's own rule.

The contract
------------
*Nothing by itself.* Installing one approves nothing: what it may approve is in the user's own configuration.

*Cheap where there is nothing.* `candidates` is called in each turn of the loop, and names the proposals that `decide`
may want; where it names none, no code is read. It may record what it has noticed, in a transaction of its own.

*In one transaction.* `decide` is called in the transaction that approves. It gets the code that each proposal would
run, None where that is unknown, and answers in which name each is approved, by id: a text that begins with `right:`. It
leaves out what waits for a person. What it records is recorded with the approvals or, if it raises or the process dies,
not at all. Nothing slow belongs there, and nothing that starts a process.

*The same record, the same answer.* Two calls on a record that has not changed answer the same names, and the second
records nothing more than the first, where that was undone.

*Failing closed.* What cannot be known is not approved. One that raises approves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.provenance import CodeStateDocument

__all__ = ["PREFIX", "Approver", "Codes"]

PREFIX = "right:"  # of the names in which approvers approve
Codes = Mapping[str, "CodeStateDocument | None"]


class Approver(ABC):
    """Approves proposals in the loop; see the contract at the top of this module."""

    @abstractmethod
    def candidates(self, lab: Lab) -> Collection[str]:
        """Returns the ids of the proposals that it may approve now."""

    @abstractmethod
    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        """Returns the name in which each is approved, by id; what waits for a person is left out.

        Args:
            codes: the code that each of the candidates would run.
        """
