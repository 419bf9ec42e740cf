"""The StatefulCluster controller: `controller` acts; `plan`, `desired`, `claims`, `status` decide."""
