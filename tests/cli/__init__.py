"""Tests of the command line, against a server written by hand."""
