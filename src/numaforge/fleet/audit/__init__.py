"""Many machines together: the findings of each, how it differs from its peers, and racks as a whole."""
