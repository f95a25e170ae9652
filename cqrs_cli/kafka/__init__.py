"""Everything about Kafka. Imports point in one direction only:

    kafka         clients, reading, writing, offsets
    └→ admin      what the cluster has and permits, and making topics
       └→ topics      the five topics of an aggregate, as values and rules
          └→ connection   how to reach a cluster, as a value in Kafka's own words

    embedded      a real broker of the project's own; it imports connection, nothing here imports it

A part may import each part below it, never one above.
"""
