"""Entry point of the supervisor library: offers nothing by itself.

Schedulers whose runs are processes of this machine, or of a cluster's node, name it in `Provider.requires` and start
their commands through `perpetual_supervisor.rundir`.
"""
