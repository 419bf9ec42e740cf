"""Tables for one kind each: replicas of a StatefulCluster, runs of a Checkup, targets of a CASConfig."""
