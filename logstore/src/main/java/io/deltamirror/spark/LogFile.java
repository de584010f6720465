package io.deltamirror.spark;

import java.io.IOException;
import java.net.URI;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** A path in the log of a table: the location of the table, the folder of its log, and the version of a commit. */
record LogFile(Path table, Path folder, long version) {
  static final String LOG = "_delta_log";
  private static final Pattern VERSIONED =
      Pattern.compile("([0-9]{20})\\.(?:([0-9]{20})\\.compacted\\.json|.+)");
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
    return Optional.of(new LogFile(table, folder, versionOf(path).orElse(-1L)));
  }

  /** The location of the table, as the server reads it: it decodes addresses of files, and no names in object stores. */
  String location() {
    boolean isLocal = "file".equals(table.toUri().getScheme());
    return isLocal ? table.toUri().toString() : table.toString();
  }

  /** Whether the location begins so, in any spelling: one that is taken for another would be written past the server. */
  boolean isBelow(String beginning) {
    URI own = table.toUri();
    URI other = new Path(beginning).toUri();
    String end = beginning.endsWith("/") && !other.getPath().endsWith("/") ? "/" : "";
    boolean isSameStore = other.getScheme() == null
        || (family(own.getScheme()).equals(family(other.getScheme()))
            && Objects.requireNonNullElse(own.getAuthority(), "")
                .equals(Objects.requireNonNullElse(other.getAuthority(), "")));
    return isSameStore && (own.getPath() + "/").startsWith(other.getPath() + end);
  }

  private static String family(String scheme) {
    String known = scheme.toLowerCase(Locale.ROOT);
    return switch (known) {
      case "s3", "s3n" -> "s3a";
      case "abfs" -> "abfss";
      default -> known;
    };
  }

  /** The version of a commit file. */
  static Optional<Long> versionOf(Path path) {
    Matcher name = COMMIT.matcher(path.getName());
    return name.matches() ? Optional.of(Long.parseLong(name.group(1))) : Optional.empty();
  }

  /** The newest version that a file of a log is about, by its name. */
  static Optional<Long> newestIn(String name) {
    Matcher versioned = VERSIONED.matcher(name);
    if (!versioned.matches()) {
      return Optional.empty();
    }
    String last = versioned.group(2);
    return Optional.of(Long.parseLong(last == null ? versioned.group(1) : last));
  }

  /** The commit file of a version. */
  static Path commitIn(Path folder, long version) {
    return new Path(folder, String.format("%020d.json", version));
  }
}
