package io.deltamirror.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The tables of a transaction: data files are written to and read from their real places, while files of a log are
 * written to the stage of the transaction, and read from there, or, up to the version that it began with, from the log.
 *
 * <p>Nothing that lies in a table is deleted, moved or replaced by it.
 */
public final class TransactionFileSystem extends FileSystem {
  /** The setting of a session that names its open transaction. */
  static final String TRANSACTION = "deltamirror.transaction";
  /** The setting that names the folder where its logs are kept until it ends. */
  static final String STAGE = "deltamirror.transaction.stage";

  private static final String MANIFESTS = "_symlink_format_manifest";

  private URI uri;
  private Path stage;

  @Override
  public void initialize(URI name, Configuration configuration) throws IOException {
    super.initialize(name, configuration);
    String staged = configuration.get(STAGE, "");
    if (!name.getAuthority().equals(configuration.get(TRANSACTION)) || staged.isEmpty()) {
      throw new IOException("The transaction of " + name + " is over: what was read in it has to be used in it.");
    }
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    stage = new Path(staged);
  }

  @Override
  public String getScheme() {
    return TransactionPath.SCHEME;
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    Path place = existing(path);
    return place.getFileSystem(getConf()).open(place, bufferSize);
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    TransactionPath file = inTable(path);
    if (!file.isOfLog() && path.toUri().getPath().contains("/" + MANIFESTS + "/")) {
      throw refused("manifests of a table (delta.compatibility.symlinkFormatManifest.enabled) cannot be held back");
    }
    Path place = file.isOfLog() ? staged(file) : file.real();
    return place
        .getFileSystem(getConf())
        .create(place, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
    throw refused("no file is appended to");
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    TransactionPath source = inTable(from);
    TransactionPath target = inTable(to);
    if (!source.isOfLog() || !target.isOfLog()) {
      throw refused("data files are not renamed");
    }
    return stageSystem().rename(staged(source), staged(target));
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    TransactionPath file = inTable(path);
    if (!file.isOfLog()) {
      throw refused("data files are not deleted: run VACUUM on its own");
    }
    return stageSystem().delete(staged(file), recursive);
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    TransactionPath file = inTable(path);
    Path place = file.isOfLog() ? staged(file) : file.real();
    return place.getFileSystem(getConf()).mkdirs(place, permission);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    if (!new TransactionPath(path).isInTable()) {
      return new FileStatus(0, true, 1, 0, 0, path);
    }
    Path place = existing(path);
    return moved(place.getFileSystem(getConf()).getFileStatus(place), path);
  }

  @Override
  public FileStatus[] listStatus(Path folder) throws IOException {
    TransactionPath table = inTable(folder);
    Map<String, FileStatus> found = new TreeMap<>();
    FileNotFoundException missing = null;
    try {
      for (FileStatus status : table.real().getFileSystem(getConf()).listStatus(table.real())) {
        Path path = new Path(folder, status.getPath().getName());
        if (isVisible(new TransactionPath(path))) {
          found.put(path.getName(), moved(status, path));
        }
      }
    } catch (FileNotFoundException absent) {
      missing = absent;
    }
    if (table.isOfLog() && stageSystem().exists(staged(table))) {
      missing = null;
      for (FileStatus status : stageSystem().listStatus(staged(table))) {
        found.put(status.getPath().getName(), moved(status, new Path(folder, status.getPath().getName())));
      }
    }
    if (missing != null) {
      throw missing;
    }
    Collection<FileStatus> all = found.values();
    return all.toArray(new FileStatus[0]);
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri + "/");
  }

  @Override
  public void setWorkingDirectory(Path folder) {
    throw new UnsupportedOperationException("a transaction has no working directory");
  }

  /** Where a file of this system lies; FileNotFoundException if it is one that the transaction does not see. */
  private Path existing(Path path) throws IOException {
    TransactionPath file = inTable(path);
    if (file.isOfLog() && stageSystem().exists(staged(file))) {
      return staged(file);
    }
    if (!isVisible(file)) {
      throw new FileNotFoundException(path + " is not part of the transaction");
    }
    return file.real();
  }

  /** Whether the file of the table itself is seen: of its log, the versions that the transaction began with. */
  private static boolean isVisible(TransactionPath file) {
    Path path = file.path();
    if (!file.isOfLog() || path.getName().equals(LogFile.LOG) || !path.getParent().getName().equals(LogFile.LOG)) {
      return true;
    }
    return LogFile.newestIn(path.getName()).map(version -> version <= file.base()).orElse(false);
  }

  private TransactionPath inTable(Path path) throws IOException {
    TransactionPath file = new TransactionPath(path);
    if (!file.isInTable()) {
      throw new FileNotFoundException(path + " lies in no table of the transaction");
    }
    return file;
  }

  private Path staged(TransactionPath file) {
    return file.below(stage);
  }

  private FileSystem stageSystem() throws IOException {
    return stage.getFileSystem(getConf());
  }

  private static FileStatus moved(FileStatus status, Path path) throws IOException {
    FileStatus moved = new FileStatus(status);
    moved.setPath(path);
    return moved;
  }

  private static IOException refused(String why) {
    return new IOException("This cannot be part of a transaction of deltamirror: " + why + ".");
  }
}
