"""The simulated cluster: replays traces and synthetic load against the decision core."""
