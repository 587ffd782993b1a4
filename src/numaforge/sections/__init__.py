"""The base of profile sections, their kinds of values, and a strict YAML reader."""
