"""Everything that holds weights: rows of the catalogue, encoders, cross-encoders, late interaction."""
