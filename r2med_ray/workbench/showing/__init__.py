"""SHOW: what the models of a system are really given for one query and one document."""
