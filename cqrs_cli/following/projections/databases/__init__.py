"""The databases that projections fill. Each database has a file here and an entry in `known`; other code is common."""
