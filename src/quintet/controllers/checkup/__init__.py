"""Controller of Checkups: runs them as Jobs and reports their verdict."""
