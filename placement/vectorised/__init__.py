"""What :mod:`placement.kernels` does for one node, for many at once by numpy: where there is no compiler.

- :mod:`.nodes`: what many nodes offer to a request; :mod:`.look`: the first so many that have room.
- :mod:`.fits`: the pairs of a GPU and a mode that have room, by the :mod:`.terms` of the request;
  :mod:`.offers`: the figures of such places that a score reads; :mod:`.measures` and :mod:`.worth`: what
  those take away from others.

The arrays of a look are short.  It costs as much as there are calls of numpy: so what is the same for all
places is one number, what is treated alike is one table, and numbers that are used often are :mod:`.numbers`.
"""
