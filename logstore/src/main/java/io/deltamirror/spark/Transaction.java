package io.deltamirror.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;

/**
 * The statements of a session as one transaction over tables of a server: all of them take effect, or none.
 *
 * <p>A table is pinned at its head when a statement first names it. Statements see their own changes, whose commits are
 * kept in a stage, a folder of the transaction. At the end the commits to each table are squashed into one; all tables
 * are committed together in SQL, each at the version after the one that it was pinned at, and their objects are put.
 */
public final class Transaction {
  private static final System.Logger LOG = System.getLogger(Transaction.class.getName());
  private static final Map<String, Transaction> OPEN = new ConcurrentHashMap<>();
  private static final String POINTER = "_last_checkpoint";
  private static final String COMPACTION = "spark.databricks.delta.autoCompact.enabled";
  private static final String CHECKSUMS = "spark.databricks.delta.writeChecksumFile.enabled";

  private final String id = UUID.randomUUID().toString();
  private final SparkSession session;
  private final Configuration outside;
  private final Path stage;
  private final Map<Path, PinnedTable> tables = new LinkedHashMap<>();
  private final Map<String, scala.Option<String>> settings = new HashMap<>();

  /** A table of the transaction: its log, the version that it is pinned at, how statements see it, and their commits. */
  record PinnedTable(MirroredLog log, long base, TransactionPath seen, SquashedCommit changes) {
    long version() {
      return base + 1;
    }

    String name() {
      return log.table().name();
    }
  }

  private Transaction(SparkSession session, Path folder) {
    this.session = session;
    this.outside = session.sessionState().newHadoopConf();
    this.stage = new Path(folder, "deltamirror-transaction-" + id);
  }

  /** Begin one, with its stage in a folder that driver and executors reach. */
  public static Transaction begin(SparkSession session, String folder) {
    if (of(session).isPresent()) {
      throw new IllegalStateException("the session has an open transaction: end it before the next one begins");
    }
    Transaction transaction = new Transaction(session, new Path(folder));
    OPEN.put(transaction.id, transaction);
    transaction.set(TransactionFileSystem.TRANSACTION, transaction.id);
    transaction.set(TransactionFileSystem.STAGE, transaction.stage.toString());
    transaction.set(COMPACTION, "false"); // it would write the rows of the last statement once more
    transaction.set(CHECKSUMS, "false"); // of versions that are not published
    return transaction;
  }

  /** The open transaction of a session. */
  static Optional<Transaction> of(SparkSession session) {
    return Optional.ofNullable(OPEN.get(session.conf().get(TransactionFileSystem.TRANSACTION, "")));
  }

  /** The table in whose log a file of an open transaction lies. */
  static PinnedTable tableOf(Path file) throws IOException {
    Transaction transaction = OPEN.get(file.toUri().getAuthority());
    PinnedTable table = transaction == null ? null : transaction.table(new TransactionPath(file).real());
    if (table == null) {
      throw new IOException("The transaction of " + file + " is over.");
    }
    return table;
  }

  /** Where statements see a table; none if it is no table of the server. */
  synchronized Optional<Path> seen(Path given) throws IOException {
    if (TransactionPath.SCHEME.equals(given.toUri().getScheme())) {
      return Optional.empty();
    }
    Path table = given.getFileSystem(outside).makeQualified(given);
    if (!tables.containsKey(table)) {
      pinned(table).ifPresent(found -> tables.put(table, found));
    }
    return Optional.ofNullable(tables.get(table)).map(found -> found.seen().path());
  }

  /**
   * Commit all changes, or none; the versions of the changed tables by their names. The transaction is over then.
   *
   * <p>What fails after the commit in SQL is no failure of it: the mirror puts what is missing.
   */
  public synchronized Map<String, Long> commit() throws IOException {
    Map<PinnedTable, CommitFile> files = new LinkedHashMap<>();
    try {
      for (PinnedTable table : tables.values()) {
        if (!table.changes().isEmpty()) {
          files.put(table, CommitFile.of(table.changes().lines(table.base()).iterator()));
        }
      }
      if (!files.isEmpty()) {
        ratify(files);
        end();
        put(files);
      }
    } finally {
      for (CommitFile file : files.values()) {
        file.close();
      }
    }
    Map<String, Long> versions = new LinkedHashMap<>();
    files.keySet().forEach(table -> versions.put(table.name(), table.version()));
    return versions;
  }

  /** End it, if it is open: the session is as before, and commits that were only staged are gone. */
  public synchronized void close() {
    if (OPEN.containsKey(id)) {
      end();
    }
  }

  private void end() {
    attempt("let go of what statements have seen", () -> {
      tables.values().forEach(table -> DeltaLog.invalidateCache(session, table.seen().path()));
      new Path(TransactionPath.SCHEME, id, "/").getFileSystem(session.sessionState().newHadoopConf()).close();
    });
    OPEN.remove(id);
    settings.forEach(this::restore);
    attempt("delete the stage", () -> stage.getFileSystem(outside).delete(stage, true));
  }

  /** Commit in SQL, unless another commit came between; tables that were only read are as they were read, too. */
  private void ratify(Map<PinnedTable, CommitFile> files) throws IOException {
    List<CommitServer.Part> parts = new ArrayList<>();
    for (PinnedTable table : tables.values()) {
      Optional<CommitFile> file = Optional.ofNullable(files.get(table));
      parts.add(new CommitServer.Part(table.name(), file.isPresent() ? table.version() : table.base(), file));
    }
    tables.values().iterator().next().log().server().commitTogether(parts, "transaction-" + id);
  }

  /** Put the objects of all tables; that of a table which fails is left to the mirror. */
  private void put(Map<PinnedTable, CommitFile> files) {
    files.forEach((table, file) -> {
      attempt("put version " + table.version() + " of " + table.name(),
          () -> table.log().putCommitted(table.version(), file));
      attempt("refresh cached rows of " + table.name(),
          () -> session.catalog().refreshByPath(new TransactionPath(table.seen().path()).real().toString()));
    });
  }

  private interface Attempt {
    void run() throws IOException;
  }

  private static void attempt(String what, Attempt step) {
    try {
      step.run();
    } catch (IOException | RuntimeException error) {
      LOG.log(System.Logger.Level.WARNING, "A transaction that is over could not {0}: {1}", what, error);
    }
  }

  private Optional<PinnedTable> pinned(Path table) throws IOException {
    Path folder = new Path(table, LogFile.LOG);
    Optional<byte[]> pointer = content(new Path(folder, POINTER)); // before the head: it points to no later version
    Optional<MirroredLog> log = new DeltaMirrorLogStore(outside).published(folder, outside);
    if (log.isEmpty()) {
      return Optional.empty();
    }
    log.get().requireActive();
    long base = log.get().table().head();
    TransactionPath seen = TransactionPath.of(id, base, table);
    if (pointer.isPresent()) {
      Path copy = new TransactionPath(new Path(seen.path(), LogFile.LOG + "/" + POINTER)).below(stage);
      try (OutputStream output = copy.getFileSystem(outside).create(copy, true)) {
        output.write(pointer.get());
      }
    }
    return Optional.of(new PinnedTable(log.get(), base, seen, new SquashedCommit()));
  }

  private Optional<byte[]> content(Path small) throws IOException {
    try (InputStream input = small.getFileSystem(outside).open(small)) {
      return Optional.of(input.readAllBytes());
    } catch (FileNotFoundException absent) {
      return Optional.empty();
    }
  }

  private synchronized PinnedTable table(Path commit) {
    return tables.get(commit.getParent().getParent());
  }

  private void set(String name, String value) {
    settings.put(name, session.conf().getOption(name));
    session.conf().set(name, value);
  }

  private void restore(String name, scala.Option<String> before) {
    if (before.isDefined()) {
      session.conf().set(name, before.get());
    } else {
      session.conf().unset(name);
    }
  }
}
