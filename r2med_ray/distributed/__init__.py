"""RAY DATA AND ACTORS: the plain classes of the other rooms, over many processes and machines."""
