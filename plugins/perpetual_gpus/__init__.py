"""GPUs as runs share them: placement, leases and claims."""
