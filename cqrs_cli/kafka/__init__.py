"""The Kafka layer. Imports point in one direction only:

    kafka         clients, reads, writes, offsets
    └→ admin      queries and changes of the cluster's topics, ACLs and transactions
       └→ topics      the five topics of an aggregate, as values and rules
          └→ connection   how to reach a cluster: client properties by their Java names

    embedded      a real broker for a project; no other package here imports it

A package may import each package below it, never a package above it.
"""
