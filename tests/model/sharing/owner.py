"""The steps of an owner. The numbers are the steps of the protocol in `tests/model/sharing/__init__.py`."""

from tests.model.sharing import broker
from tests.model.sharing.world import (
    Claim,
    Commit,
    Owner,
    Rules,
    Scenario,
    Share,
    Step,
    Steps,
    Transaction,
    World,
    partition_id,
)


class Turn:
    """One owner in one world."""

    def __init__(self, scenario: Scenario, rules: Rules, world: World, number: int, partition: int) -> None:
        self.scenario, self.rules, self.world = scenario, rules, world
        self.number, self.partition_number = number, partition
        self.worker = world.workers[number]
        self.owner = self.worker.owners[partition]
        self.partition = world.partitions[partition]
        self.partition_id = partition_id(partition)
        uses_partition_id = self.worker.is_old or self.worker.retires or self.owner.is_alone
        self.own_id = self.partition_id if uses_partition_id else self.worker.id
        self.name = f"worker {number}, owner {partition}"

    def steps(self) -> Steps:
        """Yield the steps that the owner may take."""
        if self.worker.step == "gone" or self.owner.step == "gone":
            return
        match self.owner.step:
            case "idle":
                yield from self._read_without_waiting()
            case "lock":
                yield from self._lock()
            case "fence":
                yield from self._fence()
            case "read":
                yield from self._read()
            case "claim":
                yield from self._claim()
            case "claiming" | "leaving" | "returning":
                yield from self._await_claim()
            case "end":
                yield from self._read_end()
            case "fold":
                yield from self._fold()
            case "loop":
                yield from self._loop()

    def _continue(self, label: str, world: World | None = None, **knowledge: object) -> Step:
        owner = self.owner._replace(**knowledge)  # type: ignore[arg-type]
        after = (world or self.world).with_owner(self.number, self.partition_number, owner)
        return f"{self.name} {label}", after, ""

    def _drop(self, label: str) -> Step:
        """Drop all knowledge, and start again."""
        world = self.world.with_owner(self.number, self.partition_number, Owner("idle", self.owner.tries))
        return f"{self.name} {label}", world, ""

    def _holds(self, id: str) -> bool:
        is_shared = id == self.worker.id and not self.worker.is_old
        return self.world.producer(id).holder == self.number and (
            not is_shared or self.worker.step == "ready"
        )

    def _writer(self, claim: Claim | None) -> str:
        """Return the id to fence before this claim may be replaced."""
        return self.partition_id if claim is None or self.worker.is_old else claim.writer

    def _visible_commits(self) -> list[Commit]:
        """Return the answers that a coordinator may give."""
        commit, earlier = self.partition.commit, self.partition.earlier_commit
        is_stale = self.scenario.stale_reads and not self.rules.reads_own_write and earlier.claim is not None
        return [commit, earlier] if is_stale else [commit]

    def _read_without_waiting(self) -> Steps:
        """2: Read the claim without waiting, to learn which id to fence."""
        if not self.owner.tries:
            return
        for commit in self._visible_commits():
            if commit.claim is not None and commit.claim.run > self.worker.run:
                yield self._continue("finds the claim of a later run", step="gone", tries=0)
                continue
            tries, id = self.owner.tries - 1, self._writer(commit.claim)
            label = f"reads the claim of {id}"
            end = len(self.partition.log)
            if self.rules.claim_producer == "lock" and not self.worker.is_old:
                yield self._continue(label, step="lock", tries=tries, fenced_id=id, end=end)
            elif id == self.worker.id and not self.worker.is_old:
                yield self._continue(label, step="read", tries=tries, fenced_id=id, end=end)
            else:
                yield self._continue(label, step="fence", tries=tries, fenced_id=id, read=commit, end=end)

    def _lock(self) -> Steps:
        """Call `init_transactions` with the partition's id (only if it is a lock)."""
        if not broker.is_busy(self.world.producer(self.partition_id)):
            world = broker.fence(self.world, self.partition_id, self.number)
            yield self._continue("locks the partition", world, step="read", fenced_id=self.partition_id)

    def _fence(self) -> Steps:
        """2: Call `init_transactions` with the id in the claim: this aborts its open transaction."""
        id = self.owner.fenced_id
        if not broker.is_busy(self.world.producer(id)):
            world = broker.fence(self.world, id, self.number)
            skips_read = not self.rules.reads_claim_after_fence or (
                self.owner.is_alone and not self.rules.commits_handover
            )
            next_step = ("end" if self.owner.is_alone else "claim") if skips_read else "read"
            yield self._continue(f"fences {id}", self._with_rereads(world, id), step=next_step)

    def _with_rereads(self, world: World, id: str) -> World:
        """Let the worker's other owners that use this id read their claims again: they share the new producer."""
        for partition, owner in enumerate(self.worker.owners):
            if owner.step in ("read", "claim", "claiming") and owner.fenced_id == id:
                world = world.with_owner(self.number, partition, owner._replace(step="read", read=Commit()))
        return world

    def _read(self) -> Steps:
        """3: Read the claim and the position, wait for pending commits, and compare the claim with the fenced id."""
        id = self.owner.fenced_id
        if id == self.worker.id and not self.worker.is_old and self.worker.step != "ready":
            return
        can_read = broker.can_read_commit(self.world, self.partition_number)
        if broker.is_hidden(self.world, self.partition_number, id) and (
            self.rules.resolves_before_claim or not can_read
        ):
            yield from self._resolve(id)
            return
        if not can_read:
            return
        for commit in self._visible_commits():
            claim, named_id = commit.claim, self._writer(commit.claim)
            if claim is not None and claim.run > self.worker.run:
                yield self._continue("finds the claim of a later run", step="gone", tries=0)
            elif named_id != id and self.rules.claim_producer == "lock" and id == self.partition_id:
                yield self._continue(f"reads the claim of {named_id}", step="fence", fenced_id=named_id)
            elif named_id != id:
                yield self._drop(f"reads the claim of {named_id}")
            elif claim is not None and claim.writer == self.own_id and claim.run == self.worker.run:
                yield self._continue(
                    "finds its own claim", step="end", n=claim.n, fenced_id="", read=Commit()
                )
            else:
                yield self._continue("reads the claim again", step="claim", read=commit)

    def _resolve(self, id: str) -> Steps:
        if not self._holds(id):
            if id != self.worker.id or self.worker.is_old:
                yield self._drop(f"finds that its producer of {id} is fenced")
            return
        world = broker.resolve(self.world, self.rules, self.partition_number, id)
        yield f"{self.name} resolves the hidden transaction of {id}", world, ""

    def _claim(self) -> Steps:
        """4: Commit the own claim with the producer of the id that the claim has named until now.

        The worker has called `init_transactions` with its own id before. One transaction claims all partitions for
        which the worker has read that the claim names the same id.
        """
        if self.worker.step != "ready":
            return
        fenced_id = self.owner.fenced_id
        ids = {"named": fenced_id, "own": self.own_id, "lock": self.partition_id}
        id = ids[self.rules.claim_producer]
        ready = [
            number
            for number, owner in enumerate(self.worker.owners)
            if (owner.step, owner.fenced_id) == ("claim", fenced_id)
        ]
        claiming = [self.partition_number] if self.rules.claim_producer == "lock" else ready
        shares, world = list[Share](), self.world
        for number in claiming:
            owner = self.worker.owners[number]
            position, before = owner.read
            claim = Claim(self.own_id, self.worker.run, 1 + (before.n if before else 0))
            shares.append(Share(number, Commit(position, claim)))
            if self.rules.waits_for_claim:
                owner = owner._replace(step="claiming", fenced_id=id)
            else:
                owner = owner._replace(step="end", n=claim.n)
            world = world.with_owner(self.number, number, owner)
        yield from self._commit_claims(world, id, f"claims {claiming}", shares)

    def _commit_claims(self, world: World, id: str, label: str, shares: list[Share]) -> Steps:
        """Commit claims with the producer of this id. `world`: the world in which the owners wait for the commit."""
        if not self._holds(id):
            if id != self.worker.id or self.worker.is_old:
                yield self._drop(f"finds that its producer of {id} is fenced")
        elif self.world.producer(id).transaction is None:
            after = broker.send_end(world, id, Transaction(tuple(shares)))
            yield f"{self.name} {label} with {id}", after, ""

    def _await_claim(self) -> Steps:
        """4: Wait for the commit; drop all knowledge if it fails."""
        transaction = self.world.producer(self.owner.fenced_id).transaction
        if not self._holds(self.owner.fenced_id) or transaction is None:
            yield self._drop("fails to commit its claim")

    def _read_end(self) -> Steps:
        """5: Read the end of the log."""
        end = len(self.partition.log) if self.rules.reads_end_after_claim else self.owner.end
        yield self._continue(f"reads the end {end} of the log", step="fold", fenced_id="", end=end)

    def _fold(self) -> Steps:
        """5: Fold the log up to this end, once no transaction is open before it."""
        slots = self.partition.log[: self.owner.end]
        if any(slot.status == "hidden" for slot in slots):
            if broker.is_hidden(self.world, self.partition_number, self.own_id):
                yield from self._resolve(self.own_id)
        elif not any(slot.status == "open" for slot in slots):
            position = sum(slot.status == "committed" for slot in slots)
            yield self._continue(f"folds the log: position {position}", step="loop", position=position)

    def _loop(self) -> Steps:
        """6: Decide the next command in the open transaction, or check the claim while idle."""
        owner, id = self.owner, self.own_id
        producer = self.world.producer(id)
        transaction = producer.transaction
        claim = self.partition.commit.claim
        if claim is not None and claim.run > self.worker.run and transaction is None:
            yield self._continue("finds the claim of a later run", step="gone", tries=0)
        if transaction is None or producer.holder != self.number:
            yield from self._hand_over()
        if not self._holds(id):
            if id == self.partition_id:
                yield self._drop("finds that it is fenced")
            return
        is_open = transaction is None or (
            transaction.stage == "open" and not transaction.share_of(self.partition_number)
        )
        if is_open and owner.position < self.scenario.commands[self.partition_number]:
            own_claim = Claim(id, self.worker.run, owner.n)
            world = broker.produce(
                self.world, id, self.partition_number, owner.position, own_claim, self.scenario.has_keys
            )
            yield self._continue(f"decides command {owner.position}", world)

    def _hand_over(self) -> Steps:
        """Leave the shared producer to decide a suspect alone, or return to it."""
        if self.owner.is_alone:
            id = self.partition_id if self.rules.returns_with_partition_id else self.worker.id
            yield from self._commit_handover(self.world, id, self.worker.id, "returning")
        elif self.world.suspects and not self.worker.is_old:
            world = self.world._replace(suspects=self.world.suspects - 1)
            if self.rules.commits_handover:
                yield from self._commit_handover(world, self.worker.id, self.partition_id, "leaving")
            else:
                yield self._continue(
                    "leaves", world, step="fence", fenced_id=self.partition_id, is_alone=True
                )

    def _commit_handover(self, world: World, id: str, next_writer: str, step: str) -> Steps:
        """Commit a claim that names the next writer, with the producer of the current writer."""
        owner, number = self.owner, self.partition_number
        claim = Claim(next_writer, self.worker.run, owner.n + 1)
        waiting = world.with_owner(self.number, number, owner._replace(step=step, fenced_id=id))
        share = Share(number, Commit(owner.position, claim))
        yield from self._commit_claims(waiting, id, f"is {step}, and hands over", [share])
