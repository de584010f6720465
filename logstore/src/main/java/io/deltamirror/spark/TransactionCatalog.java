package io.deltamirror.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Optional;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;

/** The catalog of Delta Lake, in which a session with an open transaction finds tables as the transaction sees them. */
@SuppressWarnings("overrides") // of its parent, written in Scala
public final class TransactionCatalog extends DeltaCatalog {
  @Override
  public Table loadTable(Identifier name) {
    Table table = super.loadTable(name);
    Optional<Transaction> transaction = Transaction.of(SparkSession.active());
    if (transaction.isEmpty() || !(table instanceof DeltaTableV2 delta)) {
      return table;
    }
    Optional<Path> seen = seenBy(transaction.get(), delta.path());
    return seen.map(path -> super.loadTable(Identifier.of(new String[] {"delta"}, path.toString()))).orElse(table);
  }

  private static Optional<Path> seenBy(Transaction transaction, Path table) {
    try {
      return transaction.seen(table);
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage(), error);
    }
  }
}
