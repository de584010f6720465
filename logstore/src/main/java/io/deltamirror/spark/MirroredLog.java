package io.deltamirror.spark;

import io.delta.storage.LogStore;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The log of a table that a server has: what is committed to it, and what of that lies in its folder. */
record MirroredLog(CommitServer server, CommitServer.Table table, LogStore store, Path folder, Configuration configuration) {
  /** Commit a version to SQL, then put its object, or let the server do that; FileAlreadyExistsException if the version is taken. */
  void commit(long version, CommitFile file) throws IOException {
    requireActive();
    Optional<Long> head = server.commit(table, version, file);
    if (head.isPresent()) {
      // Delta Lake reads the winners from storage, and would try the same version for ever without them.
      publish(version, head.get());
      throw new FileAlreadyExistsException(LogFile.commitIn(folder, version).toString());
    }
    putCommitted(version, file);
  }

  /** Refuse a table that is not published. */
  void requireActive() throws IOException {
    if (!table.isActive()) {
      throw new IOException("Table " + table.name() + " of deltamirror is " + table.state()
          + ": nothing is written to its log. `deltamirror status` says why; `deltamirror table resume "
          + table.name() + "` ends a pause.");
    }
  }

  /** Put what is in SQL after this version, the newest in the folder; whether there was anything. */
  boolean publishAfter(long newest) throws IOException {
    long next = Math.max(newest, table.published()) + 1;
    if (next > table.head() || !table.isActive()) {
      return false;
    }
    publish(next, table.head());
    return true;
  }

  private void publish(long first, long last) throws IOException {
    if (table.isPutByServer()) {
      server.publish(table, last);
    } else {
      server.commits(table, first, last, this::put);
    }
  }

  /** Put a version that this job has committed: it stays committed, whatever the store says. */
  void putCommitted(long version, CommitFile file) throws IOException {
    Patience patience = server.patience();
    while (true) {
      try {
        if (table.isPutByServer()) {
          server.publish(table, version);
        } else {
          put(version, file);
        }
        return;
      } catch (Diverged diverged) {
        throw diverged;
      } catch (IOException error) {
        if (!patience.pause()) {
          throw new IOException("Version " + version + " of table " + table.name()
              + " is committed, but its object could not be put. The mirror puts it: do not run the job again.", error);
        }
      }
    }
  }

  /** Put an object unless it is there; its bytes have to be those that were committed. */
  private void put(long version, CommitFile file) throws IOException {
    Path path = LogFile.commitIn(folder, version);
    if (!file.isMadeOfLines()) {
      throw new IOException("Version " + version + " of table " + table.name() + " is not made of lines that end with "
          + "a newline: only the mirror can put it. Run `deltamirror mirror --once`, then this job again.");
    }
    try (Stream<String> lines = file.lines()) {
      store.write(path, lines.iterator(), false, configuration);
    } catch (FileAlreadyExistsException exists) {
      try (InputStream present = path.getFileSystem(configuration).open(path)) {
        if (!file.equalTo(present)) {
          throw new Diverged(path + " holds another commit than version " + version + " of table " + table.name()
              + " in SQL: another writer wrote it. `deltamirror adopt " + table.name() + "` takes it in.");
        }
      }
    }
  }

  /** The log holds other bytes than SQL committed; nothing was overwritten. */
  static final class Diverged extends IOException {
    private static final long serialVersionUID = 1L;

    Diverged(String message) {
      super(message);
    }
  }
}
