"""A model of one transaction for all partitions of a worker: one producer, many owners, and takeovers.

Today each partition has a transactional id of its own. In this model the owners of a worker share the producer of the
worker's id, and a claim names the transactional id that writes the partition: its *writer*. A claim without a writer,
and a missing claim, name the partition's own id. So does the claim of an owner of today's version.

The protocol has one rule: **only the latest producer of the id that the committed claim names may write the partition's
records or its claim.** A claim changes only in a transaction of that id. So an owner that has called
`init_transactions` with an id, and has read afterwards that the claim names this id, knows that the claim stays until
another program fences the id. The id is the lock, and the partition needs no second lock.

1. **Start.** The worker calls `init_transactions` with its own id, which is unique among the workers of the topic.
   A later attempt of the same task uses the same id, and so fences the earlier attempt with a single call.
2. **Fence.** The owner reads the claim without waiting, judges it, and calls `init_transactions` with the id that the
   claim names. This aborts the open transaction of that id for all its partitions. If the claim names the worker's own
   id, step 1 was the fence.
3. **Read.** With the producer of the fenced id, the owner commits an offset that no other program commits (a random
   number in its metadata, next to the claim in the same group). Then it reads this offset and the claim in one request,
   until the response contains the number: then no outdated coordinator has answered. If the claim names another id now,
   the owner starts again at step 2. If Kafka hides a transaction of the fenced id in the partition's logs, keys or
   offset, the owner resolves it now (`deciding.in_doubt`): after step 4 no owner would look for this id. The result is
   the same for all partitions whose claims name the id. The transaction is committed if a part of it is visible in any
   of these partitions, because a marker in the keys topic, the partition history or the group ends all of its records.
4. **Claim.** With the same producer, the owner commits its own claim, which names its worker's id. One transaction may
   claim all partitions whose claims name the fenced id. If the commit fails or is in doubt, the owner starts again at
   step 2: another program has fenced the id, or the worker of that id has restarted.
5. **Read back.** The owner reads its claim until it is visible, after the last `init_transactions` with its own id.
   Then it reads the ends of the logs and recovers, as today.
6. **Decide.** The owners add their records and positions to the worker's open transaction. The worker commits it if all
   records have their expected offsets. Otherwise it aborts the transaction. Then an owner whose records had other
   offsets starts again at step 2, and the other owners of the transaction read the ends of their logs again.
7. **Any error of the shared producer** (a fence, a commit in doubt, an unreachable broker): the worker pauses for a
   moment, so that a *taker* (an owner that takes a partition over) can finish step 4, and repeats step 1. Then each
   owner repeats steps 3 and 5. An owner whose claim still names the worker's id continues, with a position from the
   log. The others start again at step 2.

Handover without a fence: an owner commits a claim that names another id, in a transaction of its worker. So a retired
run, and an owner that is to decide a suspect alone, move a claim to the partition's own id; back again, the partition's
id commits the claim. In both directions the new writer starts at step 2. But a suspect needs no handover:
`ownership.poison_detection.batch_admission` admits it alone, so it can be alone in a transaction of the shared
producer.

Mixed versions: a new owner fences an old owner, because the claim of an old owner names no writer. An old owner does
not know writers, and fences only the partition's id. Then the expected offsets alone (`kafka.expected_offsets`) keep
each command from being decided twice; the group's offset may go back, but not the position. So before a return to the
old version, all runs should be stopped: then the claims name the partitions' ids.

The package does not implement this protocol. A prototype showed its effect: one producer for the owners of a worker,
without takeovers. Two cores, in turns, p50 in ms (with 32 partitions the median of three runs, with 4 of two):

| partitions, commands/s | a producer per partition | shared producer | Kafka Streams |
|---|--:|--:|--:|
| 32, 1,000 | 108 | 39 | 23 |
| 4, 1,000 | 32 | 36 | 29 |
| 4, 2,000 | 29 | 33 | 21 |

So it would help topics with many partitions on few cores, but not reach Kafka Streams. With the usual four partitions,
there is no gain, and each error of one partition would interrupt all partitions of its worker.

A variant with a second lock for each partition is unsound as long as a worker keeps its id. A worker that was fenced
calls `init_transactions` again before the taker's claim is committed, finds its id in the claim, and continues; the
commit of the taker's claim, which another id writes, does not notice this. The variant is sound if a worker takes a new
id at each start and after each error, and locks, fences and claims each of its partitions again. That takes an
`init_transactions` and a transaction for each partition, instead of one read for all partitions.
"""
