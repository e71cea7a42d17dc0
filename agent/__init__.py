"""The node agent: reads the GPUs of one node, cuts them into shares and runs jobs on them."""
