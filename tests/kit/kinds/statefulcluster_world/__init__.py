"""A simulated world that drives the real StatefulCluster controller: see `world.World`."""
