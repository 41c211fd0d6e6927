"""What two plugins need: durable files, locks, process identity, supervised processes. Floor 0."""
