"""The experiment of "Beware of Fragmentation" (ATC 2023): inputs, arrivals, measures, published results."""
