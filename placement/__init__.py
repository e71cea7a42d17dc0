"""The decision core: events in, commands out.

Nothing here reads a clock, draws an unseeded random number or performs I/O.  The live manager and the
simulator call the same :class:`placement.scheduler.Scheduler`.
"""
