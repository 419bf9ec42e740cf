"""pytest plugins of the test suite."""
