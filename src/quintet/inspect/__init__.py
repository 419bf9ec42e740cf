"""What users see of objects in a cluster: status, events, owners, owned objects, explanations, logs."""
