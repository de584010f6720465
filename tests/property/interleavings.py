"""Random interleavings of transactions, on the product and on the model of Delta's conflict checker at once."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from deltamirror import Add, Catalog, Committed, DomainMetadata, Remove, Transaction
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Conflict
from tests.property.conflict_model import ALREADY, UNKNOWN, Changes, Did, Lake, Plan, Value

STAGE_ABOVE = 5

SPELLINGS: dict[str, list[list[str]]] = {
    "integer": [["7", "07"], ["8", "008"]],
    "decimal(5,2)": [["1.50", "01.50", "+1.50"], ["2.00", "02.00", "+2.00"]],
    "double": [["1.0", "1", "1.00", "1e0"], ["2.5", "2.50", "25e-1"]],
    "date": [["2024-01-01"], ["2024-01-02"]],
    "timestamp": [
        ["2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00", "2024-01-01T00:00:00Z"],
        ["2024-01-01T01:00:00.000000Z", "2024-01-01 01:00:00", "2024-01-01 01:00:00.0"],
    ],
    "timestamp_ntz": [
        ["2024-01-01 00:00:00", "2024-01-01 00:00:00.000"],
        ["2024-01-01 00:00:01", "2024-01-01 00:00:01.0"],
    ],
    "string": [["7"], ["07"]],
}
"""Of each type two values, in spellings that every reader takes; the first of each is the reference writer's."""


@dataclass
class _Open:
    """A transaction under way, here and in the model."""

    number: int
    transaction: Transaction
    plans: dict[str, Plan] = field(default_factory=dict)
    left: int = 0


class _Interleaving:
    """One run: two tables, and some transactions that take turns."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = catalog
        self.kind = self.random.choice(sorted(SPELLINGS))
        self.names = [f"s{seed}.{short}" for short in "tu"]
        self.model = Lake(self.names)
        self.steps = [f"seed {seed}, partitioned by p {self.kind}"]
        self.files = 0
        for name in self.names:
            catalog.create_table(
                name,
                location=f"/nowhere/{name}",
                schema=f"id long, p {self.kind}",
                partition_by=["p"],
                features=["domainMetadata"],
                properties={"delta.enableInCommitTimestamps": "false"},
            )

    def run(self) -> None:
        for name in self.names:
            self.commit_elsewhere(name)
        several = self.random.choice([2, 2, 3])
        waiting = [
            _Open(number, self.catalog.transaction(), left=self.random.randint(1, 5)) for number in range(several)
        ]
        while waiting:
            turn = self.random.choice(waiting)
            if turn.left:
                turn.left -= 1
                self.random.choice(_ACTS)(self, turn, self.random.choice(self.names))
            else:
                waiting.remove(turn)
                self.finish(turn)
            if self.random.random() < 0.15:
                self.commit_elsewhere(self.random.choice(self.names))

    # What transactions do

    def plan(self, turn: _Open, name: str, *, takes: bool = False, looks: bool = True) -> Plan:
        plan, head = turn.plans.setdefault(name, Plan()), self.model.head(name)
        plan.first = head if plan.first is None else plan.first
        if looks and plan.looked is None:
            plan.looked = head
        if takes and plan.taken is None:
            plan.taken = head
        return plan

    def append(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name, looks=False)
        added = [self.fresh(*self.partition()) for _ in range(self.random.choice([1, 1, 2, 2 * STAGE_ABOVE]))]
        self.step(turn, f"appends {len(added)} to {name}")
        turn.transaction.append(name, [add for add, _ in added])
        plan.did.added.update({add.path: value for add, value in added})
        plan.did.changes_data = True

    def read(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name, takes=True)
        live = sorted(self.model.live(name))
        match self.random.choice(["all", "partition", "partition", "partitions", "file"]):
            case "file" if live:
                path = self.random.choice(live)
                self.step(turn, f"reads {path} of {name}")
                turn.transaction.read(name, files=[path])
                plan.reads.files.add(path)
            case "partition":
                text, value = self.partition(spelled=True)
                self.step(turn, f"reads p={text} of {name}")
                turn.transaction.read(name, partitions={"p": text})
                plan.reads.partitions.append({value})
            case "partitions":
                both = [self.partition(spelled=True) for _ in range(2)]
                self.step(turn, f"reads {both} of {name}")
                turn.transaction.read(name, partitions={"p": [text for text, _ in both]})
                plan.reads.partitions.append({value for _, value in both})
            case _:
                self.step(turn, f"reads all of {name}")
                turn.transaction.read(name)
                plan.reads.everything = True

    def remove(self, turn: _Open, name: str) -> None:
        live = self.taken_files(turn, name)
        if not live:
            return self.append(turn, name)
        plan = self.plan(turn, name, takes=True)
        path, data_change = self.random.choice(sorted(live)), self.random.random() < 0.5
        self.step(turn, f"removes {path} of {name}, data change {data_change}")
        turn.transaction.remove(name, [path], data_change=data_change)
        plan.did.removed[path] = UNKNOWN if live[path] is None else live[path]
        plan.did.changes_data |= data_change
        return None

    def taken_files(self, turn: _Open, name: str) -> dict[str, Value]:
        """What the transaction can remove: the files of the version that it took, or would take now."""
        plan = turn.plans.get(name, Plan())
        until = self.model.head(name) if plan.taken is None else plan.taken
        then = Lake([name])
        then.tables[name] = self.model.tables[name][: until + 1]
        return {path: value for path, value in then.live(name).items() if path not in plan.did.removed}

    def change_metadata(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name, takes=True)
        self.step(turn, f"sets a property of {name}")
        turn.transaction.set_metadata(name, properties={f"k{turn.number}": str(self.random.random())})
        plan.did.metadata = Changes(harmful=True)

    def enable_vectors(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name, takes=True)
        if self.has(plan, name, "vectors"):
            return
        self.step(turn, f"enables deletion vectors of {name}")
        turn.transaction.set_metadata(name, properties={"delta.enableDeletionVectors": "true"})
        plan.did.metadata = plan.did.metadata or Changes(harmful=False)
        self.upgraded(plan, "vectors", harmful=False)

    def upgrade(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name, takes=True)
        feature, harmful = self.random.choice([("vacuumProtocolCheck", False), ("checkConstraints", True)])
        if self.has(plan, name, feature):
            return
        self.step(turn, f"adds {feature} to {name}")
        turn.transaction.upgrade_protocol(name, feature)
        self.upgraded(plan, feature, harmful=harmful)

    def upgraded(self, plan: Plan, feature: str, *, harmful: bool) -> None:
        before = plan.did.protocol
        plan.did.protocol = Changes(harmful=harmful or (before is not None and before.harmful))
        plan.did.features.add(feature)

    def has(self, plan: Plan, name: str, feature: str) -> bool:
        """Whether the table has a feature in the version that the transaction took, or by the transaction itself."""
        assert plan.taken is not None
        before = self.model.tables[name][: plan.taken + 1]
        return any(feature in did.features for did in [*before, plan.did])

    def progress(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name)
        app, version = self.random.choice("AB"), self.random.randint(0, 4)
        if app in plan.did.apps:
            return
        self.step(turn, f"sets {app} of {name} to {version}")
        turn.transaction.set_transaction(name, app, version)
        plan.did.apps[app] = version

    def domain(self, turn: _Open, name: str) -> None:
        domain = self.random.choice("de")
        if domain in turn.plans.get(name, Plan()).did.domains:
            return
        plan = self.plan(turn, name, takes=True)
        self.step(turn, f"sets the domain {domain} of {name}")
        turn.transaction.set_domain(name, domain, "{}")
        plan.did.domains.add(domain)

    def stage_exact(self, turn: _Open, name: str) -> None:
        """Only as the last act: the version is the next one, or one that is taken, or one ahead."""
        plan = turn.plans.setdefault(name, Plan())
        if plan.exact is not None:
            return
        plan.exact = max(1, self.model.head(name) + self.random.choice([1, 1, 1, 0, 2]))
        add, value = self.fresh(*self.partition())
        self.step(turn, f"stages {add.path} of {name} as version {plan.exact}")
        turn.transaction.stage(name, [add], at_version=plan.exact)
        plan.did.added[add.path] = value
        plan.did.changes_data = True

    def stage_rearranged(self, turn: _Open, name: str) -> None:
        """A file that holds what others held."""
        plan = self.plan(turn, name)
        add, value = self.fresh(*self.partition(), data_change=False)
        self.step(turn, f"stages {add.path} of {name}, which changes no data")
        turn.transaction.stage(name, [add])
        plan.did.added[add.path] = value

    def stage_domain(self, turn: _Open, name: str) -> None:
        plan = self.plan(turn, name)
        if "f" in plan.did.domains:
            return
        self.step(turn, f"stages the domain f of {name}")
        turn.transaction.stage(name, [DomainMetadata(domain="f", configuration="{}", removed=False)])
        plan.did.domains.add("f")

    # How they end

    def finish(self, turn: _Open) -> None:
        if not any(plan.did.writes for plan in turn.plans.values()):
            self.append(turn, self.random.choice(self.names))
        for plan in turn.plans.values():
            did = plan.did
            actions = len(did.added) + len(did.removed) + len(did.apps) + len(did.domains)
            plan.large = actions + bool(did.metadata) + bool(did.protocol) > STAGE_ABOVE
        expected = self.model.commit(turn.plans)
        found = self.outcome(turn.transaction)
        self.step(turn, f"commits: {found}")
        assert found == expected, "\n".join([*self.steps, f"the model says: {expected}"])

    def outcome(self, transaction: Transaction) -> str | dict[str, int]:
        try:
            committed: Committed = transaction.commit()
        except Conflict as conflict:
            return conflict.reason
        return ALREADY if committed.already_applied else dict(committed.versions)

    def commit_elsewhere(self, name: str) -> None:
        """A commit of another writer, who spells values as it likes."""
        live, did, actions = self.model.live(name), Did(changes_data=True), list[Add | Remove]()
        for _ in range(self.random.randint(1, 2)):
            add, value = self.fresh(*self.partition(spelled=True))
            actions.append(add)
            did.added[add.path] = value
        if live and self.random.random() < 0.3:
            path = self.random.choice(sorted(live))
            value = live[path]
            texts = {} if value is None else {"p": self.random.choice(SPELLINGS[self.kind][int(value)])}
            actions.append(Remove(path=path, deletion_timestamp=1, data_change=True, partition_values=dict(texts)))
            did.removed[path] = UNKNOWN if value is None else value
        version = self.model.head(name) + 1
        self.steps.append(f"elsewhere, {name} gets version {version}: {actions}")
        with self.catalog.transaction() as tx:
            tx.stage_lines(name, b'{"commitInfo":{"timestamp":1}}\n' + encode_commit(actions), at_version=version)
        self.model.tables[name].append(did)

    def partition(self, *, spelled: bool = False) -> tuple[str | None, Value]:
        """A text, and the number of the value that it spells."""
        value = self.random.choice([0, 0, 1, None])
        if value is None:
            return None, None
        texts = SPELLINGS[self.kind][value]
        return (self.random.choice(texts) if spelled else texts[0]), value

    def fresh(self, text: str | None, value: Value, *, data_change: bool = True) -> tuple[Add, Value]:
        self.files += 1
        add = Add(
            path=f"f{self.files}.parquet",
            partition_values={"p": text},
            size=1,
            modification_time=1_700_000_000_000,
            data_change=data_change,
        )
        return add, value

    def step(self, turn: _Open, what: str) -> None:
        self.steps.append(f"transaction {turn.number} {what}")


_Act = Callable[[_Interleaving, _Open, str], None]
_ACTS: list[_Act] = [
    _Interleaving.append,
    _Interleaving.append,
    _Interleaving.read,
    _Interleaving.read,
    _Interleaving.remove,
    _Interleaving.remove,
    _Interleaving.change_metadata,
    _Interleaving.enable_vectors,
    _Interleaving.upgrade,
    _Interleaving.progress,
    _Interleaving.progress,
    _Interleaving.domain,
    _Interleaving.stage_exact,
    _Interleaving.stage_rearranged,
    _Interleaving.stage_domain,
]


def run_interleaving(catalog: Catalog, seed: int) -> None:
    """One random interleaving; the steps are in the error if the product and the model disagree."""
    _Interleaving(catalog, seed).run()
