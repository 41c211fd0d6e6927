"""What runs leave to keep: files listed with size and hash, checkpoints, and their retention."""
