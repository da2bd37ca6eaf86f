"""MODELS: the rows that describe them, the networks that compute here, and the clients of services elsewhere.

catalog/    what a model is, where its files are, and what it needs: rows by name, read from YAML
networks/   checkpoints in memory: texts to vectors and to scores
services/   clients of embedding services and of language models, over HTTP
at_hand.py  whether what a row needs is there, before anything starts
"""
