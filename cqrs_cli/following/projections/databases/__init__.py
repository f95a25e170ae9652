"""The databases that projections fill. Each database has a file in this folder, and an entry in `known`."""
