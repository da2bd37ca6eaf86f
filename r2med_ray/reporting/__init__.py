"""REPORT: records of a benchmark, its tables, its page and the folder they are kept in."""
