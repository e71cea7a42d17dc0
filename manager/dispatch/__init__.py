"""How the core's commands reach the agents: an outbox, fetched by long poll, emptied by acknowledgement."""

from manager.dispatch.bell import Bell
from manager.dispatch.commands import Profiles, agent_command, assignment_view, outbox_entry

__all__ = ["Bell", "Profiles", "agent_command", "assignment_view", "outbox_entry"]
