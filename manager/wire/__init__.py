"""What goes over the wire: shapes of requests and answers, the client, and how the manager is found.

The only part of the manager that the agent and the command line may import.  ``discovery`` needs the standard
library alone, so that a command that never connects starts fast.
"""
