"""Controller of CASConfigs: applies them to their targets and undoes them."""
