"""One owner of the loop: the lease that /auto, the hooks of coding agents and the daemon take, and the handovers."""
