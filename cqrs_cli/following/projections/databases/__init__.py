"""The databases that projections fill. Each is a file and an entry in `known`; all other code is common to them."""
