"""THE MIDDLE: one driver answers what the parts of all systems need, out of the store or by the work of a cluster."""
