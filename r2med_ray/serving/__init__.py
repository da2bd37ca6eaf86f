"""RAY SERVE: deployments of models that batch across queries, and the clients of the deployments."""
