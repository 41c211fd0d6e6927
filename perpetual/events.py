"""The words of the event feed. Floor 0.

An event is appended in the transaction of its change, so the feed has no gaps, and no event without a change.
`KINDS` names each kind with its subject and the keys of its payload; observers read them from `perpetual_event`.
"""

from __future__ import annotations

__all__ = ["KINDS"]

KINDS: dict[str, str] = {
    "project_created": "subject: the project id; payload: name",
    "hypothesis_added": "subject: hypothesis; payload: statement, prior, declared (whether the prior was given)",
    "hypothesis_updated": "subject: hypothesis; payload: the changed keys, was (their values before)",
    "hypothesis_status": "subject: hypothesis; payload: from, to, confidence, false_alarm_bound",
    "experiment_proposed": "subject: experiment; payload: hypothesis_id, spec_hash, title",
    "experiment_approved": "subject: experiment; payload: spec_hash",
    "code_approved": "subject: experiment; payload: code (the version it runs with from now on)",
    "baseline_renewed": "subject: the experiment; payload: by (the one that replaces it as a baseline), hypotheses",
    "approval_accepted": "subject: experiment; payload: spec_hash",
    "experiment_edited": "subject: experiment; payload: changed (keys), was (their values before), voided (approvals)",
    "record_archived": "subject: hypothesis or experiment",
    "record_restored": "subject: hypothesis or experiment",
    "deed_undone": "subject: as of the event that was taken back; payload: seq, kind (of that event)",
    "experiment_rejected": "subject: experiment; payload: reason, withdrawn (where its proposer took it back)",
    "spec_completed": "subject: experiment; payload: command, spec_hash",
    "run_created": "subject: run; payload: experiment_id, replicate, attempt, seed",
    "run_status": "subject: run; payload: experiment_id, from, to, reason",
    "run_tainted": "subject: run; payload: experiment_id, reasons",
    "run_annotated": "subject: run; payload: kind, text, source",
    "run_analysed": "subject: run; payload: experiment_id, texts (by analyser; only where one has written a text)",
    "run_retried": "subject: the new run; payload: run_id (the one tried again), attempt, cause",
    "budget_overrun": "subject: run; payload: wall_s, gpu_hours, run_hours (reserved for it from then on)",
    "budget_set": "subject: budget; payload: limit_gpu_hours",
    "evidence_added": "subject: evidence; payload: hypothesis_id, kind, log_bayes_factor",
    "note_written": "subject: path; payload: status, type, blob",
    "note_promoted": "subject: path; payload: blob, was (the status before), why",
    "note_rejected": "subject: path; payload: blob, was, why; restored (blob of the version that is shown again)",
    "note_quarantined": "subject: path; payload: as note_rejected",
    "note_expired": "subject: path; payload: as note_promoted",
    "note_failed": "subject: path; payload: error",
    "note_committed": "subject: path; payload: commit, intent",
    "rules_changed": "subject: the ledger; payload: rules (their number), hypotheses (what each was, and is by them)",
    "methodology_set": "subject: the key; payload: value, was",
    "work_adopted": "subject: the kind of source; payload: source, by, hypotheses, experiments, runs, evidence (count)",
    "queue_changed": "subject: queue; payload: state, was",
    **dict.fromkeys(("proposer_failed", "approver_failed"), "subject: the proposer or approver; payload: error"),
    "loop_stopped": "subject: loop; payload: reason, cycles, explanation",
}
