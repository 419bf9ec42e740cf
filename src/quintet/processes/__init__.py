"""The processes of the operator and the controllers: from options to a running manager."""
