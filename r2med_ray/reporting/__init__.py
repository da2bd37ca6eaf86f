"""REPORT: the record of a benchmark, its tables, its page and the folder that holds them."""
