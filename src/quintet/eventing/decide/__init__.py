"""Pure decisions: no I/O, no clock, no logging (an import contract checks it)."""
