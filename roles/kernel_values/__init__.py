"""Governors, energy preferences, sysctls, transparent huge pages and other values of the running kernel."""
