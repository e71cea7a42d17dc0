"""Numbers as arrays without an axis: numpy takes one in half the time that it takes an int."""

from __future__ import annotations

import numpy as np

from placement import columns as k
from placement.columns import Ints

ONE: Ints = np.array(1)
SEVEN: Ints = np.array(7)
EIGHT: Ints = np.array(8)
THOUSAND: Ints = np.array(1000)
EMPTY: Ints = np.array(k.EMPTY)
