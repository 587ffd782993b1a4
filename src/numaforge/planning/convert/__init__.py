"""Other tools' files as profiles: text in, a profile and notes out."""
