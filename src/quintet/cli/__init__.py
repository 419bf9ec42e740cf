"""The command line: arguments, output and exit codes, nothing else.

Entered by `main.main`; every command calls one function of another package.
"""
