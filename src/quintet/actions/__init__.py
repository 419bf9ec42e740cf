"""Changes that users make to single objects: suspend, reconcile, rerun, undo."""
