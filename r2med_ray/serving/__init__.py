"""RAY SERVE: models behind deployments that batch across queries, and their clients."""
