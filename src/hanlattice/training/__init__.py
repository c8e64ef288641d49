"""Training: one visible loop, its optimiser, its log, and the state from which a stopped run goes on."""
