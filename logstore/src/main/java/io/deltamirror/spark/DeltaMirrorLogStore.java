package io.deltamirror.spark;

import io.delta.storage.AzureLogStore;
import io.delta.storage.CloseableIterator;
import io.delta.storage.GCSLogStore;
import io.delta.storage.HDFSLogStore;
import io.delta.storage.LogStore;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
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
    Optional<CommitServer> server = file.isEmpty() ? Optional.empty() : CommitServer.of(file.get(), configuration);
    if (server.isEmpty()) {
      usual(path, configuration).write(path, actions, overwrite, configuration);
      return;
    }
    requireNoTransaction(file.get(), configuration);
    CommitServer.Place place = server.get().placeAt(file.get().location());
    boolean isFirst = file.get().version() == 0;
    if (place.table().isEmpty() && isFirst && place.creates()) {
      create(server.get(), file.get(), actions);
    } else if (place.table().isPresent() || (!isFirst && place.imports())) {
      try (CommitFile commit = CommitFile.of(actions)) {
        mirrored(server.get(), file.get(), place, configuration).commit(file.get().version(), commit);
      }
    } else {
      usual(path, configuration).write(path, actions, overwrite, configuration);
    }
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration configuration) throws IOException {
    LogStore store = usual(path, configuration);
    Optional<LogFile> file = LogFile.inLog(path, configuration);
    Optional<CommitServer> server = file.isEmpty() ? Optional.empty() : CommitServer.of(file.get(), configuration);
    if (server.isEmpty()) {
      return store.listFrom(path, configuration);
    }
    CommitServer.Place place = server.get().placeAt(file.get().location());
    if (place.table().isEmpty() && !place.imports()) {
      return store.listFrom(path, configuration);
    }
    requireNoTransaction(file.get(), configuration);
    List<FileStatus> found = new ArrayList<>();
    try {
      store.listFrom(path, configuration).forEachRemaining(found::add);
    } catch (FileNotFoundException nothingYet) {
      if (place.table().isEmpty()) {
        throw nothingYet;
      }
      // The table is in SQL, and nothing of it is published.
    }
    if (place.table().isEmpty() && newest(found) < 0) {
      return found.iterator(); // there is no table to be imported
    }
    boolean isBehind = mirrored(server.get(), file.get(), place, configuration).publishAfter(newest(found));
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

  /** The log in a folder, with all commits of its table there; none if the server does not have the table. */
  Optional<MirroredLog> published(Path folder, Configuration configuration) throws IOException {
    LogFile file = LogFile.inLog(LogFile.commitIn(folder, 0), configuration).orElseThrow();
    Optional<CommitServer> server = CommitServer.of(file, configuration);
    Optional<CommitServer.Place> place =
        server.isEmpty() ? Optional.empty() : Optional.of(server.get().placeAt(file.location()));
    if (place.isEmpty() || place.get().table().isEmpty()) {
      return Optional.empty();
    }
    listFrom(LogFile.commitIn(folder, Math.max(0, place.get().table().get().published())), configuration);
    return Optional.of(mirrored(server.get(), file, place.get(), configuration));
  }

  /** Refuse what would pass a transaction by: it is seen by all at once, or does not see what the transaction did. */
  private static void requireNoTransaction(LogFile file, Configuration configuration) throws IOException {
    if (configuration.get(TransactionFileSystem.TRANSACTION) != null) {
      throw new IOException("The session has an open transaction of deltamirror, and this statement reads or writes "
          + file.table() + " outside of it: name the table in SQL, as `db.name` or delta.`location`. Tables are created "
          + "or replaced, and paths loaded, saved or streamed, before the transaction or after it.");
    }
  }

  /** The log that a file lies in, which becomes one of the server if it is none yet. */
  private MirroredLog mirrored(
      CommitServer server, LogFile file, CommitServer.Place place, Configuration configuration) throws IOException {
    CommitServer.Table table = place.table().isPresent() ? place.table().get() : server.imported(file.location());
    return new MirroredLog(server, table, usual(file.folder(), configuration), file.folder(), configuration);
  }

  /** Make a table of the first version; the server puts it. */
  private static void create(CommitServer server, LogFile file, Iterator<String> actions) throws IOException {
    try (CommitFile commit = CommitFile.of(actions)) {
      if (!server.created(file.location(), commit)) {
        throw new FileAlreadyExistsException(LogFile.commitIn(file.folder(), 0).toString());
      }
    }
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
