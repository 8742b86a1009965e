"""Sections of bench/figures."""
