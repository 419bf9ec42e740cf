"""The command line: arguments, output and exit codes."""
