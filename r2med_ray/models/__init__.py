"""MODELS: the rows that describe models, networks that compute here, and clients of services elsewhere.

catalog/    rows by name, read from YAML: what a model is, where its files are, and what it needs
networks/   checkpoints in memory, which turn texts into vectors or scores
services/   clients of embedding services and of language models, over HTTP
at_hand.py  checks, before anything starts, whether the things that a row needs are there
"""
