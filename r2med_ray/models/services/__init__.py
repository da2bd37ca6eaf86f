"""Clients of services: embeddings and chat over an OpenAI-compatible address."""
