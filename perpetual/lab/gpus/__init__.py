"""GPUs as runs share them: whose a process is (`owners`), what can be leased (`units`), who gets which (`packing`), who
may go ahead of whom (`backfill`), what projects say to one another (`claims`), and how it all is shown (`shown`).

A lease is the `gpus` of a run's record while the run is launching or running, and it is given in the transaction of
`perpetual.lab.flows.devices`; a claim is what other projects see of it. All but `claims` is free of deeds. Read by that
flow, by those beside it and by `perpetual.lab.inventory`.
"""
