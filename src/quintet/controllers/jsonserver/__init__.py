"""Controller of JsonServers: serves JSON data from a Deployment."""
