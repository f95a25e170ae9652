"""Measures of an owner, and the reports in which they reach the driver. Nothing is decided by them."""
