"""Which modules are mutated, by which tests their mutants have to be killed, and which of them cannot be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.running import Suite


@dataclass(frozen=True, slots=True)
class Target:
    """A module, the tests that have to notice its mutants, and the mutants that are no defects."""

    tests: tuple[str, ...]
    """The files of tests, the quickest first: each is for the mutants that those before it did not notice."""
    harmless: Mapping[str, str] = field(default_factory=dict)
    """By the name of a mutant, why no test can tell it from the module, or need not."""

    def suites(self, module: Path) -> Iterator[Suite]:
        """The tests, one file after the other."""
        yield from (Suite(module, tests) for tests in self.tests)


_TYPE = "a type, which nothing reads at run time"
_CLASS_NAME = "the name of a class that is never shown"
_CULPRIT = "`encode` refuses one of these actions: the joined lines are not returned"
_NOT_CHANGED = "a guard against callers that change one, of which there are none"
_BY_NAME = "a guard against callers that do not name the fields, of which there are none"
_SHORTCUT = "a shortcut: the pattern that follows finds nothing in other texts"
_SHIFTS = "the shift goes by fives, from 30 to 35"
_PAIRS = "UTF-16 has an even number of bytes"
_MEMORY = "memory, and nothing else"
_COUNTED = "a shortcut: the count of keys that follows decides"
_FORBIDDEN_MD5 = "for systems that forbid MD5, unless it is not for security"
_ALL_PAIRS = "every bin is a pair"
_THREADS = "how much is done at a time, and nothing else"
_CHOSEN = "a size that was chosen, not a rule"
_THREAD_NAME = "the name of a thread"
_TRUTH = "only whether it is true is looked at"
_EXCEPTION = "an exception has its arguments without it"
_ONE_SCHEMA = "a guard against values of two types, which are told apart before"


def _unfrozen(*classes: str) -> dict[str, str]:
    """The mutants of frozen dataclasses whose fields may be set."""
    return {
        f"{name}: {mutant}": _NOT_CHANGED
        for name in classes
        for mutant in ("dataclass(frozen=True, slots=True) -> dataclass(slots=True)", "True -> False")
    }


def _unfrozen_by_name(*classes: str) -> dict[str, str]:
    """The same of dataclasses whose fields have to be named, and the mutants of that."""
    whole = "dataclass(frozen=True, slots=True, kw_only=True)"
    mutable = {f"{name}: {whole} -> dataclass(slots=True, kw_only=True)": _NOT_CHANGED for name in classes}
    positional = {f"{name}: {whole} -> dataclass(frozen=True, slots=True)": _BY_NAME for name in classes}
    return mutable | positional | _positional_and_mutable(*classes)


def _positional_and_mutable(*structs: str) -> dict[str, str]:
    """The mutants of structs whose fields may be set, or be given without their names."""
    mutable = {f"{name}: True -> False": _NOT_CHANGED for name in structs}
    return mutable | {f"{name} (2): True -> False": _BY_NAME for name in structs}


def _thread_names(function: str, name: str) -> dict[str, str]:
    """The mutants of the name that a function gives its threads."""
    call = "ThreadPoolExecutor(_THREADS"
    mutants = (f"{call}, thread_name_prefix='{name}') -> {call})", f"'{name}' -> '{name}X'", f"'{name}' -> ''")
    return {f"{function}: {mutant}": _THREAD_NAME for mutant in mutants}


TARGETS: Mapping[str, Target] = {
    "deltamirror/delta/lines.py": Target(
        tests=(
            "tests/golden/test_reference_lines.py",
            "tests/unit/delta/test_line_edges.py",
            "tests/unit/delta/test_lines.py",
        ),
        harmless={
            "_Line: action: Action -> pass": "every subclass has the field; the base tells it to the type checker",
            (
                "_line: msgspec.defstruct(f'_{struct.__name__}Line', fields, bases=(_Line,), "
                "forbid_unknown_fields=True, gc=False) -> msgspec.defstruct(f'_{struct.__name__}Line', fields, "
                "forbid_unknown_fields=True, gc=False)"
            ): "the base tells the field to the type checker",
            "_line: '_' -> ''": _CLASS_NAME,
            "_line: '_' -> '_X'": _CLASS_NAME,
            "_line: 'Line' -> ''": _CLASS_NAME,
            "_line: 'Line' -> 'LineX'": _CLASS_NAME,
            "encode_commit: b'' -> b'X'": _CULPRIT,
            r"encode_commit: b'\n' -> b'\nX'": _CULPRIT,
            "_view: 2 -> 3": "of the pieces, only the one between the first two quotes is looked at",
            "_view (2): 0 -> 1": "a time that is absent is not negative, whichever number stands for it",
        },
    ),
    "deltamirror/delta/names.py": Target(
        tests=("tests/unit/delta/test_names.py",),
        harmless={
            "module: 'json' -> 'jsonX'": _TYPE,
            "module: 'json' -> ''": _TYPE,
            "module: 'parquet' -> 'parquetX'": _TYPE,
            "module: 'parquet' -> ''": _TYPE,
            "LogFile: @abstractmethod def _suffix(self) -> str: ... -> pass": "every subclass has the method",
        },
    ),
    "deltamirror/delta/paths.py": Target(
        tests=("tests/unit/delta/test_paths.py", "tests/unit/delta/test_validation_paths.py"),
        harmless={
            "path_identity: '%' -> ''": _SHORTCUT,
            "path_identity: ':' -> ''": _SHORTCUT,
            "_timestamp: '0' -> '0X'": "no time ends with such a letter",
        },
    ),
    "deltamirror/delta/order.py": Target(
        tests=("tests/golden/test_reference_lines.py", "tests/unit/delta/test_order.py"),
        harmless={
            "module: 'V' -> 'VX'": _TYPE,
            "module: 'V' -> ''": _TYPE,
            "module: 32 -> 33": _SHIFTS,
            "_walk: shift >= _HASH_BITS -> shift > _HASH_BITS": _SHIFTS,
            "java_hash: zip(units[::2], units[1::2], strict=True) -> zip(units[::2], units[1::2])": _PAIRS,
            "java_hash: True -> False": _PAIRS,
        },
    ),
    "deltamirror/delta/commitinfo.py": Target(
        tests=("tests/unit/delta/test_operation_words.py", "tests/unit/delta/test_commitinfo.py"),
        harmless={
            **{
                f"module: '{mode}' -> '{changed}'": _TYPE
                for mode in ("Append", "Overwrite", "ErrorIfExists", "Ignore")
                for changed in (f"{mode}X", "")
            },
            **_unfrozen_by_name("RewriteMetrics"),
        },
    ),
    "deltamirror/delta/shapes.py": Target(
        tests=(
            "tests/unit/delta/test_shapes.py",
            "tests/unit/delta/test_line_edges.py",
            "tests/unit/delta/test_lines.py",
        ),
        harmless={
            **_unfrozen("Place", "_Field"),
            "_has_lone_surrogate: return False -> return None": _TRUTH,
            (
                "hides_something: line.count(f'\"{name}\"'.encode()) > 1 -> line.count(f'\"{name}\"'.encode()) >= 1"
            ): _COUNTED,
            "hides_something: '\"' -> ''": _COUNTED,
            "hides_something (2): '\"' -> ''": _COUNTED,
        },
    ),
    "deltamirror/delta/checksum.py": Target(
        tests=("tests/unit/delta/test_checksum.py",),
        harmless={**_unfrozen("_Commit"), "Checksum: True -> False": _NOT_CHANGED},
    ),
    "deltamirror/delta/lastcheckpoint.py": Target(
        tests=("tests/unit/delta/test_lastcheckpoint.py",),
        harmless={
            **{f"module{place}: 'Json' -> '{changed}'": _TYPE for place in ("", " (2)") for changed in ("JsonX", "")},
            **{
                f"Trust: '{trust}' -> '{changed}'": "a text that is never shown"
                for trust in ("verified", "unverified", "damaged")
                for changed in (f"{trust}X", "")
            },
            **_positional_and_mutable("V2Checkpoint", "LastCheckpoint", "_Read"),
            **_unfrozen("PointerReading"),
            "_Number: __slots__ = () -> pass": _MEMORY,
            (
                "_checksum: md5(','.join(texts).encode(), usedforsecurity=False) -> md5(','.join(texts).encode())"
            ): _FORBIDDEN_MD5,
            "_checksum: False -> True": _FORBIDDEN_MD5,
            "_quoted: '' -> 'X'": "letters are never encoded",
        },
    ),
    "deltamirror/delta/chunks.py": Target(tests=("tests/unit/delta/test_chunks.py",), harmless=_unfrozen("Chunk")),
    "deltamirror/delta/histograms.py": Target(
        tests=("tests/unit/delta/test_histograms.py",),
        harmless={
            **_positional_and_mutable("FileSizeHistogram", "DeletedRecordCounts"),
            "_size_boundaries: 4096 -> 4097": "the last step ends at 4096 either way",
            "_size_boundaries: 1 -> 2": "no step is smaller than 4",
            (
                "FileSizeHistogram.of: zip(*_binned(sizes, bounds), strict=True) -> zip(*_binned(sizes, bounds))"
            ): _ALL_PAIRS,
            "FileSizeHistogram.of: True -> False": _ALL_PAIRS,
        },
    ),
    "deltamirror/delta/hashorder.py": Target(
        tests=("tests/unit/delta/test_hashorder.py",),
        harmless={
            "module: TypeVar('K', bound=Hashable) -> TypeVar('K')": _TYPE,
            **{f"module: '{name}' -> '{changed}'": _TYPE for name in "KV" for changed in (f"{name}X", "")},
            "module: 2147483648 -> 2147483649": "values of one bucket have the same lowest bit",
            "MutableHashMap: __slots__ = ('_entries', '_hash_of', '_length') -> pass": _MEMORY,
            "file_hash: lru_cache(maxsize=4096) -> lru_cache()": _MEMORY,
            "file_hash: 4096 -> 4097": _MEMORY,
        },
    ),
    "deltamirror/publish/assembly.py": Target(
        tests=("tests/unit/publish/test_assembly.py",),
        harmless={
            "module: 4 -> 5": _THREADS,
            "module: os.cpu_count() or 1 -> os.cpu_count() and 1": _THREADS,
            "module: 1 -> 2": _THREADS,
            "module: 2 * _THREADS -> 2 // _THREADS": _THREADS,
            "module: 2 -> 3": _THREADS,
            **_thread_names("_joined", "deltamirror-assembly"),
            "_decoded: 0 -> 1": "a number that is looked at only where lines are checked",
            r"_num_lines: b'\n' -> b'\nX'": "a shortcut: otherwise the lines are decoded one by one",
        },
    ),
    "deltamirror/publish/commits.py": Target(
        tests=(
            "tests/unit/publish/test_commits.py",
            "tests/unit/publish/test_unit_outcomes.py",
            "tests/contract/publish/test_commits.py",
        ),
        harmless={
            **_unfrozen("_Publisher"),
            "_Stopped.__init__: super().__init__(failure) -> pass": _EXCEPTION,
            "publish_commits: break -> continue": "a budget that is spent stays spent",
        },
    ),
    "deltamirror/publish/checksums.py": Target(
        tests=(
            "tests/unit/publish/test_checksum_chains.py",
            "tests/contract/publish/test_checksums.py",
            "tests/unit/publish/test_commits.py",
        ),
        harmless={
            "module: 1024 -> 1025": _CHOSEN,
            "module: 16 -> 17": _CHOSEN,
            "module (2): 1024 -> 1025": _CHOSEN,
            "module: 8 -> 9": _CHOSEN,
            "module: '_Item' -> '_ItemX'": _TYPE,
            "module: '_Item' -> ''": _TYPE,
            "ChecksumChain: __slots__ = ('_files', '_last') -> pass": _MEMORY,
            "ChecksumChain.following: work.num_bytes > _LARGEST -> work.num_bytes >= _LARGEST": _CHOSEN,
            "ChecksumChain.following: 0 -> 1": "`after` refuses the version, too",
            "ChecksumTrail.__init__: bytes | None -> bytes & None": _TYPE,
            "ChecksumTrail.__init__: Failure | None -> Failure & None": _TYPE,
            "ChecksumTrail.__init__: int | None -> int & None": _TYPE,
            "ChecksumTrail.__init__: 'deltamirror-checksums' -> 'deltamirror-checksumsX'": _THREAD_NAME,
            (
                "ChecksumTrail.follow: if len(self._unit.commits) == 1: self._write(work, data) return -> pass"
            ): "a thread writes it as well",
            "ChecksumTrail.follow: 1 -> 2": "a thread writes it as well",
            "ChecksumTrail.follow: len(self._under_way) > _BEHIND -> len(self._under_way) >= _BEHIND": _CHOSEN,
            "is_true: return False -> return None": _TRUTH,
        },
    ),
    "deltamirror/publish/readings.py": Target(
        tests=("tests/unit/publish/test_readings.py",), harmless=_unfrozen_by_name("OpenedVersion")
    ),
    "deltamirror/publish/rules.py": Target(
        tests=("tests/unit/publish/test_rules.py",),
        harmless={
            "module: 8 * 1024 * 1024 -> 8 * 1024 // 1024": _CHOSEN,
            "module: 8 -> 9": _CHOSEN,
            "module: 1024 -> 1025": _CHOSEN,
            "module (2): 1024 -> 1025": _CHOSEN,
        },
    ),
    "deltamirror/publish/compactions.py": Target(tests=("tests/unit/publish/test_compactions.py",)),
    "deltamirror/publish/checkpoint/encoding.py": Target(
        tests=("tests/unit/publish/checkpoint/test_encoding.py",),
        harmless={
            "module: 64 -> 65": _CHOSEN,
            "module: 1024 -> 1025": _CHOSEN,
            "encoded.file_of: 1 -> 2": "for a row group without rows, which has none either way",
        },
    ),
    "deltamirror/publish/checkpoint/companions.py": Target(
        tests=("tests/unit/publish/checkpoint/test_companions.py",),
        harmless={
            "module: 4 -> 5": _THREADS,
            **_thread_names("damaged_sidecars", "sidecar"),
            "repeats: return False -> return None": _TRUTH,
        },
    ),
    "deltamirror/publish/checkpoint/stitching.py": Target(
        tests=(
            "tests/unit/publish/checkpoint/test_taken_over.py",
            "tests/unit/publish/checkpoint/test_stitching.py",
        ),
        harmless={
            **_unfrozen("UnchangedGroups", "_Group"),
            "stitched: 2 -> 3": "only whether there is a second file is looked at",
            "stitched: del some -> pass": _MEMORY,
        },
    ),
    "deltamirror/publish/checkpoint/classic.py": Target(tests=("tests/unit/publish/checkpoint/test_classic.py",)),
    "deltamirror/publish/checkpoint/classic_base.py": Target(
        tests=("tests/unit/publish/checkpoint/test_classic_base.py",), harmless=_unfrozen("ClassicBase")
    ),
    "deltamirror/publish/checkpoint/base_checkpoint.py": Target(
        tests=("tests/unit/publish/checkpoint/test_base_checkpoint.py",),
    ),
    "deltamirror/publish/checkpoint/unchanged_sidecars.py": Target(
        tests=("tests/unit/publish/checkpoint/test_unchanged_sidecars.py",),
        harmless={
            **_unfrozen("SidecarFile"),
            **_unfrozen_by_name("UnchangedSidecars"),
            **{
                f"unchanged_sidecars: {mutant}": "every row group was looked at"
                for mutant in ("zip(places, judged, strict=True) -> zip(places, judged)", "True -> False")
            },
            "_whole: 0 -> 1": "without tombstones it is not looked at",
        },
    ),
    "deltamirror/publish/checkpoint/v2_base.py": Target(
        tests=(
            "tests/unit/publish/checkpoint/test_base_checkpoint.py",
            "tests/unit/publish/checkpoint/test_unchanged_sidecars.py",
        ),
        harmless={
            "module: 4 -> 5": _THREADS,
            **_unfrozen("V2Base"),
            **_thread_names("_fetched_together", "sidecar"),
        },
    ),
    "deltamirror/publish/checkpoint/building.py": Target(
        tests=("tests/unit/publish/checkpoint/test_building.py",), harmless=_unfrozen_by_name("Built")
    ),
    "deltamirror/publish/checkpoint/sidecars.py": Target(
        tests=("tests/unit/publish/checkpoint/test_sidecars.py",),
        harmless={
            "module: 4 -> 5": _THREADS,
            "module: 20000 -> 20001": _CHOSEN,
            **_unfrozen_by_name("_Writing", "TopFile"),
            **_thread_names("_put_sidecars", "sidecar"),
            "_nothing_else: return False -> return None": _TRUTH,
        },
    ),
    "deltamirror/publish/checkpoint/publishing.py": Target(
        tests=("tests/unit/publish/checkpoint/test_publishing.py",),
        harmless={"_Stopped.__init__: super().__init__(failure) -> pass": _EXCEPTION},
    ),
    "deltamirror/publish/checkpoint/unchanged.py": Target(
        tests=("tests/unit/publish/checkpoint/test_unchanged_groups.py",),
        harmless={
            **_unfrozen_by_name("Group"),
            **{
                f"unchanged_groups: {mutant}": "every row group was looked at"
                for mutant in ("zip(lasting, changed, strict=True) -> zip(lasting, changed)", "True -> False")
            },
            r"Sought.within: '\x01' -> '\x01X'": "only more is read: the keys that follow decide",
            "has_any: return False -> return None": _TRUTH,
        },
    ),
    "deltamirror/publish/checkpoint/thrift.py": Target(tests=("tests/unit/publish/checkpoint/test_thrift.py",)),
    "deltamirror/publish/checkpoint/summary.py": Target(
        tests=("tests/unit/publish/checkpoint/test_summary.py",),
        harmless=_unfrozen_by_name("Written"),
    ),
    "deltamirror/publish/checkpoint/grouping.py": Target(
        tests=("tests/unit/publish/checkpoint/test_grouping.py",),
        harmless={
            "module: 10000 -> 10001": _CHOSEN,
            "_rows_within (2): 1 -> 2": "it is asked only where not all rows are within",
        },
    ),
    "deltamirror/publish/checkpoint/placement.py": Target(
        tests=("tests/unit/publish/checkpoint/test_placement.py",),
        harmless={
            **_unfrozen("Placed"),
            "place: data.size > PIECE_BYTES -> data.size >= PIECE_BYTES": "one piece is as good as the whole",
        },
    ),
    "deltamirror/publish/checkpoint/readback.py": Target(
        tests=("tests/unit/publish/checkpoint/test_readback.py",),
        harmless={
            (
                "check: zip(accumulate(counts, initial=0), counts, strict=False)"
                " -> zip(accumulate(counts, initial=0), counts)"
            ): "the default of zip, which a rule of ours wants to be said",
            (
                "is_same: zip(one.flatten(), other.flatten(), strict=True) -> zip(one.flatten(), other.flatten())"
            ): _ONE_SCHEMA,
            "is_same: True -> False": _ONE_SCHEMA,
        },
    ),
    "deltamirror/publish/checkpoint/equivalence.py": Target(
        tests=("tests/unit/publish/checkpoint/test_equivalence.py",),
        harmless={
            **{
                f"_by_name: '{kind}' -> '{changed}'": "the two kinds still have two names"
                for kind in ("txn", "domain")
                for changed in (f"{kind}X", "")
            },
            "_are_same_rows: return False -> return None": _TRUTH,
            "_sorted: 'path' -> 'pathX'": "a name that is used here alone",
            "_sorted: 'path' -> ''": "a name that is used here alone",
        },
    ),
}
"""By their paths below ``src``."""
