"""For the tests of plugin authors: contract suites, twins of the real parts, fixtures. The kernel never imports it.

A suite is a pytest class that is subclassed with one fixture, and holds every promise of a slot:

- `stores`: `StoreContract`, `DurableStoreContract`, `SharedStoreContract`
- `schedulers`: `SchedulerContract`
- `gpus`: `GpuContract`
- `placements`: `PlacementContract`
- `scorers`: `ScorerContract`
- `memories`: `MemoryContract`, `DurableMemoryContract`
- `gates`: `GateContract`
- `promotion_stages`: `PromotionStageContract`
- `redactors`: `RedactorContract`
- `analysis`: `MetricReaderContract`, `AnalyserContract`, `ProposerContract`
- `harnesses`: `HarnessContract`
- `scaffolders`: `ScaffolderContract`
- `mcp_servers`: `McpContract`
- `captures`: `CaptureContract`
- `sections`: `CheckContract`, `StatusSectionContract`
- `services`: `ServiceContract`

`memory_store` and `memory_notes` are twins: a store without a disk, and a memory of plain files. `plugin` has the
fixtures: a project, its lab, a distribution that is not installed, the program. `scheduler_site` is where the runs of
the schedulers' suite live; `recorder` is for `perpetual plugins check`, which runs the suites from outside. `hostile`
has values, texts and ids that a careless part loses, `elsewhere` asks a part in another process, `verdicts` has the
verdict "vacuous", in `unsynced` nothing reaches the disk, `limits` ends a test that hangs, `quick` takes the time of a
call where other processes are busy. `projects` makes a project that a test has copied the user's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

# pytest shows the values of a failed assertion for test files and for modules that are registered before their import.
if "pytest" in sys.modules:
    import pytest

    for _room in Path(__file__).parent.iterdir():
        _name = f"{__name__}.{_room.stem}"
        if (_room.suffix == ".py" or (_room / "__init__.py").exists()) and _name not in sys.modules:
            pytest.register_assert_rewrite(_name)  # of a package: each of its modules
