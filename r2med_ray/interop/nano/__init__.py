"""Builds a set in NanoR2MED's layout from any collection.

Several rooms have a module for NanoR2MED: `corpus/nano.py` reads what a set says of itself,
`retrieval/nano_hybrid.py` makes its fusion, `evaluation/nano_profile.py` has its measures,
`reporting/nano_figures.py` and `reporting/nano_tables.py` make its tables, and `interop/nano/` builds new sets. The
reason is that each arrow of the flow has its room, and a Nano set passes through all of these rooms like any other
set.
"""
