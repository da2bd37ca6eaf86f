"""Any collection as a set in NanoR2MED's layout."""
