"""The databases that projections fill. Each is one file, and a line in `known`; nothing else asks which one it is."""
