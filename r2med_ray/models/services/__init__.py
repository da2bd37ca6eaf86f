"""Clients of services with an OpenAI-compatible address: embeddings and chat."""
