"""Many machines together: what each has of findings, what tells one from its peers, and racks as a whole."""
