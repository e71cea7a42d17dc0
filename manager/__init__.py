"""The manager: keeps the state of the cluster, takes requests and carries out what the decision core decides."""
