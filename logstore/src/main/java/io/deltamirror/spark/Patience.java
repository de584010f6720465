package io.deltamirror.spark;

import java.io.InterruptedIOException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** How long an act is tried again: with growing pauses, until its time is over. */
final class Patience {
  private static final long LONGEST_PAUSE = 5_000;
  private final long end;
  private long pause = 50;

  Patience(Duration whole) {
    this.end = System.nanoTime() + whole.toNanos();
  }

  /** Wait before the next try; false if there is no time left for one. */
  boolean pause() throws InterruptedIOException {
    return pause(0);
  }

  /** The same, for no less than so many milliseconds. */
  boolean pause(long least) throws InterruptedIOException {
    long wanted = Math.max(least, ThreadLocalRandom.current().nextLong(pause / 2, pause + 1));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
    if (System.nanoTime() + Duration.ofMillis(wanted).toNanos() > end) {
      return false;
    }
    try {
      Thread.sleep(wanted);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while waiting for deltamirror");
    }
    return true;
  }
}
