package io.deltamirror.spark;

import java.util.Objects;
import org.apache.hadoop.fs.Path;

/**
 * A path of a table as a transaction sees it, {@code tx://ID/BASE/SCHEME/AUTHORITY/path}: it says itself which file it
 * stands for, and which version of the table the transaction began with, so that executors need no more than the path.
 */
record TransactionPath(Path path) {
  static final String SCHEME = "tx";
  private static final String NO_AUTHORITY = "-";
  private static final int PARTS = 5;

  /** A table, as a transaction sees it that began with this version of it. */
  static TransactionPath of(String transaction, long base, Path table) {
    String authority = Objects.requireNonNullElse(table.toUri().getAuthority(), NO_AUTHORITY);
    String place = "/" + base + "/" + table.toUri().getScheme() + "/" + authority + table.toUri().getPath();
    return new TransactionPath(new Path(SCHEME, transaction, place));
  }

  /** The file that it stands for. */
  Path real() {
    String authority = parts()[3];
    return new Path(parts()[2], authority.equals(NO_AUTHORITY) ? null : authority, "/" + parts()[4]);
  }

  /** The newest version that the transaction sees of other writers. */
  long base() {
    return Long.parseLong(parts()[1]);
  }

  /** The same file below a folder. */
  Path below(Path folder) {
    return new Path(folder, path.toUri().getPath().substring(1));
  }

  /** Whether it is the folder of a log, or lies in it. */
  boolean isOfLog() {
    return ("/" + parts()[4] + "/").contains("/" + LogFile.LOG + "/");
  }

  /** The paths above a table stand for nothing. */
  boolean isInTable() {
    return parts().length == PARTS;
  }

  private String[] parts() {
    return path.toUri().getPath().split("/", PARTS);
  }
}
