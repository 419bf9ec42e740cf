"""Controller of StatefulClusters: replicas with random names and adoptable claims."""
