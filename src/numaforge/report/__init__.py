"""What a person looks at: tables for a terminal and an SVG of the machine."""
