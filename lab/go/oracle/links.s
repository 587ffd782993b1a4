// Empty: a file of assembly lets this package declare functions without a body, which go:linkname fills in.
