"""`r2med`, the command line: each command calls the rooms that do the work."""
