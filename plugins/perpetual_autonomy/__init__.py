"""Earned autonomy: how well declared figures fared, by proposer, and rights to approve that evidence earns."""
