"""The manager: keeps the state of the cluster and carries out what the decision core decides."""
