package io.deltamirror.spark;

import java.io.IOException;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** A path in the log of a table: the location of the table, the folder of its log, and the version of a commit. */
record LogFile(String location, Path folder, long version) {
  private static final String LOG = "_delta_log";
  private static final Pattern COMMIT = Pattern.compile("([0-9]{20})\\.json");

  /** A commit file; none if the path is any other file. */
  static Optional<LogFile> commit(Path path, Configuration configuration) throws IOException {
    Optional<Long> version = versionOf(path);
    return version.isEmpty() ? Optional.empty() : inLog(path, configuration);
  }

  /** Any file right in the folder of a log. */
  static Optional<LogFile> inLog(Path path, Configuration configuration) throws IOException {
    Path folder = path.getParent();
    if (folder == null || folder.getParent() == null || !folder.getName().equals(LOG)) {
      return Optional.empty();
    }
    Path table = path.getFileSystem(configuration).makeQualified(folder.getParent());
    // The server decodes addresses of files, and takes names in object stores as they are.
    boolean isLocal = "file".equals(table.toUri().getScheme());
    String location = isLocal ? table.toUri().toString() : table.toString();
    return Optional.of(new LogFile(location, folder, versionOf(path).orElse(-1L)));
  }

  /** The version of a commit file. */
  static Optional<Long> versionOf(Path path) {
    Matcher name = COMMIT.matcher(path.getName());
    return name.matches() ? Optional.of(Long.parseLong(name.group(1))) : Optional.empty();
  }

  /** The commit file of a version. */
  static Path commitIn(Path folder, long version) {
    return new Path(folder, String.format("%020d.json", version));
  }
}
