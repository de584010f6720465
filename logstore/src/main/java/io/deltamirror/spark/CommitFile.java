package io.deltamirror.spark;

import java.io.BufferedInputStream;
import java.io.BufferedWriter;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.stream.Stream;

/** The bytes of a commit in a temporary file: they are sent, and put, as often as it takes, and may be large. */
record CommitFile(Path path) implements Closeable {
  /** The lines of a job, as Delta Lake writes them: each with its end. */
  static CommitFile of(Iterator<String> actions) throws IOException {
    CommitFile file = empty();
    try (BufferedWriter writer = Files.newBufferedWriter(file.path, StandardCharsets.UTF_8)) {
      while (actions.hasNext()) {
        writer.write(actions.next());
        writer.write('\n');
      }
    } catch (IOException | RuntimeException error) {
      file.close();
      throw error;
    }
    return file;
  }

  /** So many bytes of a stream. */
  static CommitFile of(InputStream stream, long size) throws IOException {
    CommitFile file = empty();
    try (OutputStream output = Files.newOutputStream(file.path)) {
      byte[] buffer = new byte[64 * 1024];
      for (long left = size; left > 0; ) {
        int read = stream.read(buffer, 0, (int) Math.min(left, buffer.length));
        if (read < 0) {
          throw new IOException("the answer of the server ends " + left + " bytes too early");
        }
        output.write(buffer, 0, read);
        left -= read;
      }
    } catch (IOException | RuntimeException error) {
      file.close();
      throw error;
    }
    return file;
  }

  /** Whether a LogStore, which takes lines without their ends, writes exactly these bytes. */
  boolean isMadeOfLines() throws IOException {
    try (InputStream bytes = open()) {
      int last = -1;
      for (int next = bytes.read(); next >= 0; next = bytes.read()) {
        if (next == '\r') {
          return false;
        }
        last = next;
      }
      return last == '\n';
    }
  }

  /** The lines without their ends; to be closed. */
  Stream<String> lines() throws IOException {
    return Files.lines(path, StandardCharsets.UTF_8);
  }

  /** Whether a stream has exactly these bytes. */
  boolean equalTo(InputStream other) throws IOException {
    try (InputStream own = open(); InputStream theirs = new BufferedInputStream(other)) {
      int expected = own.read();
      while (expected >= 0 && expected == theirs.read()) {
        expected = own.read();
      }
      return expected < 0 && theirs.read() < 0;
    }
  }

  @Override
  public void close() throws IOException {
    Files.deleteIfExists(path);
  }

  private InputStream open() throws IOException {
    return new BufferedInputStream(Files.newInputStream(path));
  }

  private static CommitFile empty() throws IOException {
    return new CommitFile(Files.createTempFile("deltamirror-", ".json"));
  }
}
