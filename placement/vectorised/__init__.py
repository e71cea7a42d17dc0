"""What :mod:`placement.kernels` does for one node, for many at once by numpy: where there is no compiler.

- :mod:`.nodes`: what many nodes offer to a request; :mod:`.look`: the first so many that have room.
- :mod:`.fits`: the pairs of a GPU and a mode that have room; :mod:`.offers`: the figures of such places that
  a score reads; :mod:`.measures`: what those take away from others.
"""
