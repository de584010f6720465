package io.deltamirror.spark;

import io.delta.storage.AzureLogStore;
import io.delta.storage.CloseableIterator;
import io.delta.storage.GCSLogStore;
import io.delta.storage.HDFSLogStore;
import io.delta.storage.LogStore;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Commits of stock Delta Lake jobs go to the SQL log of a deltamirror server first, and then to {@code _delta_log/}.
 *
 * <p>A commit is a POST at an exact version, repeated with its own key until there is an answer. The bytes are fixed by
 * it, so that whoever comes first, this job, another one or the mirror, puts the same object. Before a conflict is
 * raised, and before a log is listed, the versions that are in SQL and not yet in the log are put there, in order:
 * Delta Lake reads them from storage. Everything else, and every location without a table of the server, goes to the
 * LogStore that the scheme has without this one.
 */
public final class DeltaMirrorLogStore extends LogStore {
  private final Map<String, LogStore> usual = new ConcurrentHashMap<>();

  /** As Delta Lake makes it, one for each scheme. */
  public DeltaMirrorLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration configuration) throws IOException {
    return usual(path, configuration).read(path, configuration);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    Optional<LogFile> file = overwrite ? Optional.empty() : LogFile.commit(path, configuration);
    Optional<MirroredLog> log = file.isEmpty() ? Optional.empty() : mirrored(file.get(), configuration);
    if (log.isEmpty()) {
      usual(path, configuration).write(path, actions, overwrite, configuration);
      return;
    }
    try (CommitFile commit = CommitFile.of(actions)) {
      log.get().commit(file.get().version(), commit);
    }
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration configuration) throws IOException {
    LogStore store = usual(path, configuration);
    Optional<LogFile> file = LogFile.inLog(path, configuration);
    Optional<MirroredLog> log = file.isEmpty() ? Optional.empty() : mirrored(file.get(), configuration);
    if (log.isEmpty()) {
      return store.listFrom(path, configuration);
    }
    List<FileStatus> found = new ArrayList<>();
    try {
      store.listFrom(path, configuration).forEachRemaining(found::add);
    } catch (FileNotFoundException nothingYet) {
      // The table is in SQL, and nothing of it is published.
    }
    boolean isBehind = log.get().publishAfter(newest(found));
    return isBehind ? store.listFrom(path, configuration) : found.iterator();
  }

  @Override
  public Path resolvePathOnPhysicalStorage(Path path, Configuration configuration) throws IOException {
    return usual(path, configuration).resolvePathOnPhysicalStorage(path, configuration);
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration configuration) throws IOException {
    return usual(path, configuration).isPartialWriteVisible(path, configuration);
  }

  /** The log that a file lies in, if the server has a table there. */
  private Optional<MirroredLog> mirrored(LogFile file, Configuration configuration) throws IOException {
    Optional<CommitServer> server = CommitServer.of(file.location(), configuration);
    if (server.isEmpty()) {
      return Optional.empty();
    }
    LogStore store = usual(file.folder(), configuration);
    return server.get().tableAt(file.location())
        .map(table -> new MirroredLog(server.get(), table, store, file.folder(), configuration));
  }

  private static long newest(List<FileStatus> found) {
    return found.stream().mapToLong(status -> LogFile.versionOf(status.getPath()).orElse(-1L)).max().orElse(-1L);
  }

  /** The LogStore that Delta Lake takes for a scheme if no other one is configured. */
  private LogStore usual(Path path, Configuration configuration) throws IOException {
    String scheme = path.getFileSystem(configuration).getUri().getScheme();
    return usual.computeIfAbsent(scheme, this::made);
  }

  private LogStore made(String scheme) {
    return switch (scheme) {
      case "s3", "s3a", "s3n" -> new S3SingleDriverLogStore(initHadoopConf());
      case "abfs", "abfss", "adl", "wasb", "wasbs" -> new AzureLogStore(initHadoopConf());
      case "gs" -> new GCSLogStore(initHadoopConf());
      default -> new HDFSLogStore(initHadoopConf());
    };
  }
}
