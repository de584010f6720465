package io.deltamirror.spark;

import io.delta.storage.LocalLogStore;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The logs of the tables of a transaction: its commits are staged, one version for each statement. */
public final class TransactionLogStore extends LocalLogStore {
  /** As Delta Lake makes it. */
  public TransactionLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    if (overwrite || LogFile.versionOf(path).isEmpty()) {
      super.write(path, actions, overwrite, configuration);
      return;
    }
    List<String> lines = new ArrayList<>();
    actions.forEachRemaining(lines::add);
    Transaction.tableOf(path).changes().take(lines, () -> super.write(path, lines.iterator(), false, configuration));
  }
}
