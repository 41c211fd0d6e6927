"""For the tests of plugin authors: contract suites, twins of the real parts, fixtures. The kernel never imports it.

A suite is a pytest class that is subclassed with one fixture, and holds every promise of a slot:

- `stores`: `StoreContract`, `DurableStoreContract`, `SharedStoreContract`
- `schedulers`: `SchedulerContract`
- `gpus`: `GpuContract`
- `placements`: `PlacementContract`
- `scorers`: `ScorerContract`
- `memories`: `MemoryContract`, `DurableMemoryContract`
- `gates`: `GateContract`
- `analysis`: `MetricReaderContract`, `AnalyserContract`, `ProposerContract`
- `harnesses`: `HarnessContract`
- `mcp_servers`: `McpContract`
- `captures`: `CaptureContract`
- `sections`: `CheckContract`, `StatusSectionContract`
- `services`: `ServiceContract`

`memory_store` and `memory_notes` are twins: a store without a disk, and a memory of plain files. `plugin` has the
fixtures: a project, its lab, a distribution that is not installed, the program. `scheduler_site` is where the runs of
the schedulers' suite live; `recorder` is for `perpetual plugins check`, which runs the suites from outside.
`hostile` has values, texts and ids that a careless part loses. `projects` makes a project that a test has copied the
user's own.
"""
