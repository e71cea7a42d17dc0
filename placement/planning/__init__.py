"""Plans that policies build on: cells, MIG partitions, serving segments, packing scores, trials; all pure."""
