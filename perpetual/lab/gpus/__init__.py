"""GPUs as runs share them: whose a process is (`owners`), what can be leased (`units`), who gets which (`packing`).

Pure of deeds: a lease is the `gpus` of a run's record while the run is launching or running, and it is given in the
transaction of `perpetual.lab.flows.devices`. Read by that flow, by those beside it and by `perpetual.lab.inventory`.
"""
