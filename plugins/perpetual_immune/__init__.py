"""The gate that keeps attacks and secrets out of the memory."""
