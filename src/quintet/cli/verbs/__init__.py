"""One module per verb, in folders named after the groups of `quintet --help`."""
