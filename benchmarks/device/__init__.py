"""Records on one accelerator, through the protocol's roles in one process: one script, one run, one file."""
