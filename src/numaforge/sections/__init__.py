"""What sections of a profile are made of: their base, kinds of values, and YAML read strictly."""
