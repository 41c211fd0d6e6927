"""What the last lines of a log say of a run's end: the words of the real programs, and what is no such word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perpetual.api import RunOutput, Symptom
from perpetual.testing.redactors import bundled_redactor
from perpetual_metrics import symptoms
from perpetual_metrics.symptoms import RULES, last_error, seen_in, symptoms_of

REDACTOR = bundled_redactor()

# As the programs themselves say it.
SAID = [
    ("oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("oom", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total)"),
    ("oom", "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB"),
    ("oom", "RuntimeError: CUDA error: out of memory"),
    ("oom", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB."),
    ("oom", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate"),
    ("oom", "failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ("oom", "OOM when allocating tensor with shape[64,512,512] and type float"),
    ("oom", "MemoryError"),
    ("oom", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array"),
    ("oom", "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory:"),
    ("oom", "OSError: [Errno 12] Cannot allocate memory"),
    ("oom", "terminate called after throwing an instance of 'std::bad_alloc'"),
    ("oom", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."),
    ("killed", "Killed"),
    ("killed", "train.sh: line 3: 12345 Killed                  python train.py"),
    ("killed", "zsh: killed     python train.py"),
    ("killed", "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. "),
    ("shm", "Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)"),
    ("disk", "OSError: [Errno 28] No space left on device"),
    ("disk", "cp: error writing 'model.pt': Disk quota exceeded"),
    ("import", "ModuleNotFoundError: No module named 'flash_attn'"),
    ("import", "ImportError: cannot import name 'Trainer' from 'transformers'"),
    ("import", "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
    ("nccl", "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"),
    ("nccl", "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/"),
    ("nccl", "ncclUnhandledCudaError: Call to CUDA function failed."),
    ("cuda", "RuntimeError: CUDA error: device-side assert triggered"),
    ("cuda", "RuntimeError: No CUDA GPUs are available"),
    ("crash", "Segmentation fault (core dumped)"),
    ("crash", "Fatal Python error: Segmentation fault"),
    ("nan", "RuntimeError: Loss is nan, stopping training"),
    ("nan", "epoch 3 step 120 train_loss=nan lr=0.1"),
    ("nan", "ValueError: NaN loss at step 12"),
]  # fmt: skip


def log(folder: Path, text: str, name: str = "stderr.log") -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize(("kind", "line"), SAID)
def test_a_known_line_is_a_symptom_of_its_kind(tmp_path: Path, kind: str, line: str) -> None:
    found = symptoms_of(REDACTOR, [log(tmp_path, f"step 1\nstep 2\n{line}\n")])
    assert [item.kind for item in found] == [kind]
    assert found[0].text == line.strip()
    assert found[0].source == "stderr.log:3"


def test_every_rule_has_a_line_and_every_hint_a_rule() -> None:
    kinds = {rule.kind for rule in RULES}
    assert {kind for kind, _ in SAID} == kinds
    assert set(symptoms.HINTS) == kinds


@pytest.mark.parametrize(
    "line",
    [
        "loss 0.12, no nans so far in this very long line about other things than that",
        "the guard has Killed no worker",
        "memory: 12 GiB free",
        "saved to bus.error.txt",
        "import torch",
        "finance: loss of the bank",
        "",
    ],
)
def test_an_ordinary_line_is_no_symptom(tmp_path: Path, line: str) -> None:
    assert symptoms_of(REDACTOR, [log(tmp_path, line + "\n")]) == []


def test_the_last_line_of_a_kind_and_standard_error_first(tmp_path: Path) -> None:
    err = log(tmp_path, "MemoryError\nx\nCUDA out of memory\n")
    out = log(tmp_path, "Killed\nMemoryError: in the output\n", "stdout.log")
    assert symptoms_of(REDACTOR, [err, out]) == [
        Symptom("oom", "CUDA out of memory", "stderr.log:3"),
        Symptom("killed", "Killed", "stdout.log:1"),
    ]


def test_a_line_is_bounded_and_printable(tmp_path: Path) -> None:
    text = "a" * 100_000 + "\x1b]0;title\x07 MemoryError \x9b2J\u202e" + "b" * 100_000
    (found,) = symptoms_of(REDACTOR, [log(tmp_path, text[:120_000])])
    assert len(found.text) <= 300
    assert "MemoryError" in found.text
    assert found.text.isprintable()
    assert "\\x1b" in found.text


def test_a_progress_bar_s_line_ends_at_its_return(tmp_path: Path) -> None:
    (found,) = symptoms_of(REDACTOR, [log(tmp_path, "10%|#   |\r20%|##  |\rMemoryError\r30%\n")])
    assert found == Symptom("oom", "MemoryError", "stderr.log:1")


def test_only_the_end_is_read_and_lines_are_counted_from_the_start(tmp_path: Path) -> None:
    early = "MemoryError\n" + "x" * 99 * 1 + "\n"
    path = log(tmp_path, early + ("y" * 99 + "\n") * 2000 + "Segmentation fault\n")
    assert symptoms_of(REDACTOR, [path]) == [Symptom("crash", "Segmentation fault", "stderr.log:2003")]
    assert symptoms_of(REDACTOR, [path], counted_bytes=1000)[0].source == "stderr.log"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "stderr.log"
    path.write_bytes(b"\xff\xfe\x00MemoryError\xff\n")
    (found,) = symptoms_of(REDACTOR, [path])
    assert found.kind == "oom"
    assert found.text.isprintable()


def test_anything_but_a_file_has_no_symptoms_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stderr.log")
    (tmp_path / "stdout.log").mkdir()
    assert symptoms_of(REDACTOR, [tmp_path / "stderr.log", tmp_path / "stdout.log", tmp_path / "none"]) == []


_KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA\n" * 3
_TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        (_KEY, "MIIE"),
        (f"{_KEY}CUDA out of memory MIIEowIBAAKCAQEA\n", "MIIE"),
        (f"{'x' * 30} {_TOKEN}{' ' * 140}CUDA out of memory\n", "6789"),
        (f"ValueError: {_TOKEN}\n", "efgh"),
    ],
    ids=["a key without an end", "in a key", "cut by the excerpt", "the error"],
)
def test_a_line_out_of_a_secret_shows_nothing_of_it(tmp_path: Path, text: str, leaks: str) -> None:
    """A line is redacted with what stands around it: half a token has no form, nor has one line of a key."""
    log = tmp_path / "stderr.log"
    log.write_text(text)
    error = last_error(REDACTOR, log)
    assert error is not None
    shown = seen_in(RunOutput("failed", log, log, REDACTOR))
    assert error in shown
    assert not [item for item in shown if leaks in item.text]
    assert any("<redacted>" in item.text for item in shown)
