package io.deltamirror.spark;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;

/** The commit API of {@code deltamirror serve}, as the settings of a job name it. */
final class CommitServer {
  static final String SERVER = "deltamirror.server";
  static final String TOKEN = "deltamirror.token";
  static final String LOCATIONS = "deltamirror.locations";
  static final String RETRY_SECONDS = "deltamirror.retry.seconds";
  private static final String TOKEN_VARIABLE = "DELTAMIRROR_TOKEN";
  private static final long RETRIED_FOR = 120;
  private static final Duration LONGEST_REQUEST = Duration.ofMinutes(10);
  private static final int LONGEST_LINE = 1024;
  private static final HttpResponse.BodyHandler<String> TEXT =
      HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8);
  private static final HttpClient CLIENT =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10)).build();

  private final URI address;
  private final String token;
  private final Duration retried;

  private CommitServer(URI address, String token, Duration retried) {
    this.address = address;
    this.token = token;
    this.retried = retried;
  }

  /** A table of the server, which puts its objects if {@code isPutByServer}. */
  record Table(String name, String state, long head, long published, boolean isPutByServer) {
    boolean isActive() {
      return state.equals("active");
    }
  }

  /** What the server has at a location: a table, or none, and whether one is made there by a job. */
  record Place(Optional<Table> table, boolean creates, boolean imports) {}

  /** What a transaction does to a table: the lines that become this version; none if this version was only read. */
  record Part(String table, long version, Optional<CommitFile> file) {}

  /** Takes commits as they are read. */
  interface Taker {
    void take(long version, CommitFile file) throws IOException;
  }

  /** The server that is asked about a location; none where the settings leave the location out. */
  static Optional<CommitServer> of(LogFile file, Configuration configuration) throws IOException {
    String location = file.location();
    String[] beginnings = configuration.getTrimmedStrings(LOCATIONS);
    boolean isAsked = beginnings.length == 0;
    for (String beginning : beginnings) {
      isAsked |= file.isBelow(beginning);
    }
    if (!isAsked) {
      return Optional.empty();
    }
    String server = configuration.getTrimmed(SERVER, "");
    if (server.isEmpty()) {
      throw new IOException("The setting spark.hadoop." + SERVER + " is missing: the address of `deltamirror serve`, "
          + "such as http://127.0.0.1:8765. Without it, it is not known whether " + location + " is one of its tables.");
    }
    Duration retried = Duration.ofSeconds(configuration.getLong(RETRY_SECONDS, RETRIED_FOR));
    return Optional.of(new CommitServer(addressOf(server), tokenOf(configuration), retried));
  }

  Patience patience() {
    return new Patience(retried);
  }

  /** What the server has at a location. */
  Place placeAt(String location) throws IOException {
    HttpResponse<String> answer = answered(get("tables?location=" + encoded(location)), TEXT, false);
    String document = answer.body();
    boolean isNowhere = Json.text(document, "code").equals("invalid-location"); // where no table of it can lie
    if (answer.statusCode() == 404 || isNowhere) {
      return new Place(Optional.empty(), Json.isTrue(document, "creates"), Json.isTrue(document, "imports"));
    }
    require(answer.statusCode() == 200, answer.statusCode(), document);
    return new Place(Optional.of(table(document)), false, false);
  }

  /** Let the table that lies at a location become one of the server. */
  Table imported(String location) throws IOException {
    HttpRequest request = newTable(location).POST(HttpRequest.BodyPublishers.noBody()).build();
    HttpResponse<String> answer = answered(request, TEXT, false);
    require(answer.statusCode() == 201, answer.statusCode(), answer.body());
    return table(answer.body());
  }

  /** Make a table with these lines as its version 0, which the server puts; false if another commit has it. */
  boolean created(String location, CommitFile file) throws IOException {
    HttpRequest request = newTable(location).POST(HttpRequest.BodyPublishers.ofFile(file.path())).build();
    HttpResponse<String> answer = answered(request, TEXT, true);
    boolean isTaken = answer.statusCode() == 409 && Json.text(answer.body(), "code").equals("conflict");
    require(isTaken || answer.statusCode() == 201, answer.statusCode(), answer.body());
    return !isTaken;
  }

  /** Commit lines as exactly this version; the head of the table if another commit has that version. */
  Optional<Long> commit(Table table, long version, CommitFile file) throws IOException {
    HttpRequest request = request("tables/" + encoded(table.name()) + "/commits/" + version)
        .header("Idempotency-Key", "logstore-" + UUID.randomUUID())
        .header("Content-Type", "application/x-ndjson")
        .POST(HttpRequest.BodyPublishers.ofFile(file.path()))
        .build();
    HttpResponse<String> answer = answered(request, TEXT, true);
    String document = answer.body();
    boolean isConflict = answer.statusCode() == 409 && Json.text(document, "code").equals("conflict");
    Optional<Long> head = isConflict ? Json.number(document, "head") : Optional.empty();
    // A table that is behind has no winner to be read: Delta Lake would try again for ever.
    boolean isTaken = head.isPresent() && head.get() >= version;
    require(isTaken || answer.statusCode() == 201, answer.statusCode(), document);
    return head;
  }

  /** Commit to several tables, all of them or none; Conflict if another commit came between. */
  void commitTogether(List<Part> parts, String key) throws IOException {
    List<HttpRequest.BodyPublisher> body = new ArrayList<>();
    for (Part part : parts) {
      String place = "\"table\":\"" + part.table() + "\",\"version\":" + part.version();
      if (part.file().isEmpty()) {
        body.add(HttpRequest.BodyPublishers.ofString("{\"read\":{" + place + "}}\n"));
      } else {
        Path file = part.file().get().path();
        String head = "{\"commit\":{" + place + ",\"bytes\":" + Files.size(file) + "}}\n";
        body.add(HttpRequest.BodyPublishers.ofString(head));
        body.add(HttpRequest.BodyPublishers.ofFile(file));
      }
    }
    HttpRequest request = request("commits")
        .header("Idempotency-Key", key)
        .header("Content-Type", "application/vnd.deltamirror.commits")
        .POST(HttpRequest.BodyPublishers.concat(body.toArray(HttpRequest.BodyPublisher[]::new)))
        .build();
    HttpResponse<String> answer = answered(request, TEXT, true);
    if (answer.statusCode() == 409 && Json.text(answer.body(), "code").equals("conflict")) {
      throw new Conflict(Json.text(answer.body(), "detail"));
    }
    require(answer.statusCode() == 201, answer.statusCode(), answer.body());
  }

  /** Let the server put the versions of a table, up to this one. */
  void publish(Table table, long version) throws IOException {
    HttpRequest request = request("tables/" + encoded(table.name()) + "/publish?version=" + version)
        .POST(HttpRequest.BodyPublishers.noBody())
        .build();
    HttpResponse<String> answer = answered(request, TEXT, false);
    require(answer.statusCode() == 200, answer.statusCode(), answer.body());
  }

  /** The commits of consecutive versions, one after the other. */
  void commits(Table table, long first, long last, Taker taker) throws IOException {
    Patience patience = patience();
    for (long next = first; next <= last; ) {
      String range = "tables/" + encoded(table.name()) + "/commits?from=" + next + "&to=" + last;
      long before = next;
      HttpResponse<InputStream> answer = answered(get(range), HttpResponse.BodyHandlers.ofInputStream(), false);
      try (InputStream body = new BufferedInputStream(answer.body())) {
        if (answer.statusCode() != 200) {
          require(false, answer.statusCode(), new String(body.readAllBytes(), StandardCharsets.UTF_8));
        }
        next = taken(body, next, taker);
      }
      // An answer may end early, on purpose or because the server did: the rest is asked for again.
      if (next == before && !patience.pause()) {
        throw new IOException("deltamirror at " + address + " gave no version " + next + " of table " + table.name());
      }
    }
  }

  /** Hand over the commits of an answer, as far as they are complete; the version after them. */
  private static long taken(InputStream body, long first, Taker taker) throws IOException {
    long next = first;
    while (true) {
      CommitFile file;
      try {
        String head = line(body);
        if (Json.number(head, "version").orElse(-1L) != next) {
          return next;
        }
        file = CommitFile.of(body, Json.number(head, "bytes").orElseThrow());
      } catch (IOException broken) {
        return next;
      }
      try (file) {
        taker.take(next, file);
      }
      next++;
    }
  }

  private HttpRequest.Builder newTable(String location) {
    return request("tables?location=" + encoded(location)).header("Content-Type", "application/x-ndjson");
  }

  private static Table table(String document) {
    return new Table(
        Json.text(document, "table"),
        Json.text(document, "state"),
        Json.number(document, "head").orElseThrow(),
        Json.number(document, "published").orElse(-1L),
        Json.text(document, "publisher").equals("server"));
  }

  private HttpRequest get(String path) {
    return request(path).GET().build();
  }

  private HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(address.resolve("api/v1/" + path))
        .timeout(LONGEST_REQUEST)
        .header("Authorization", "Bearer " + token);
  }

  /** Send a request until there is an answer that does not ask to try again. */
  private <T> HttpResponse<T> answered(HttpRequest request, HttpResponse.BodyHandler<T> handler, boolean commits)
      throws IOException {
    Patience patience = patience();
    boolean mayHaveArrived = false;
    while (true) {
      String why;
      long least = 0;
      try {
        HttpResponse<T> answer = CLIENT.send(request, handler);
        boolean failed = answer.statusCode() >= 500; // also of a proxy in front, which knows nothing of the commit
        if (!failed && answer.statusCode() != 429) {
          return answer;
        }
        mayHaveArrived |= failed;
        why = "status " + answer.statusCode() + " " + said(answer.body());
        least = answer.headers().firstValueAsLong("Retry-After").orElse(0) * 1_000;
      } catch (ConnectException | HttpConnectTimeoutException error) {
        why = "it cannot be reached";
      } catch (IOException error) {
        mayHaveArrived = true;
        why = String.valueOf(error.getMessage());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("interrupted while waiting for deltamirror at " + address);
      }
      if (!patience.pause(least)) {
        throw new IOException(unanswered(why, commits, mayHaveArrived));
      }
    }
  }

  private String unanswered(String why, boolean commits, boolean mayHaveArrived) {
    String what = "deltamirror at " + address + " gave no answer for " + retried.toSeconds() + " s: " + why + ".";
    if (!commits || !mayHaveArrived) {
      return what + " Nothing was written. Start `deltamirror serve`, or see spark.hadoop." + SERVER + ".";
    }
    return what + " Whether the commit took place is not known: look at the history of the table before the job runs again.";
  }

  private void require(boolean isGood, int status, String document) throws IOException {
    if (!isGood) {
      throw new Refused("deltamirror at " + address + " refused (" + status + "): " + Json.text(document, "detail")
          + ". " + Json.text(document, "hint"));
    }
  }

  private static URI addressOf(String server) throws IOException {
    try {
      URI address = URI.create(server.endsWith("/") ? server : server + "/");
      if (address.getHost() != null && address.getScheme().matches("https?")) {
        return address;
      }
    } catch (IllegalArgumentException malformed) {
      // Said below.
    }
    throw new IOException("spark.hadoop." + SERVER + " is not an address such as https://mirror.example:8765");
  }

  private static String tokenOf(Configuration configuration) throws IOException {
    char[] configured = configuration.getPassword(TOKEN);
    String token = configured != null ? new String(configured) : System.getenv(TOKEN_VARIABLE);
    if (token == null || !token.matches("[A-Za-z0-9_-]+")) {
      throw new IOException("There is no token for deltamirror: give one of `deltamirror token issue NAME --rights write` "
          + "by the variable " + TOKEN_VARIABLE + " of the driver, or as spark.hadoop." + TOKEN + ".");
    }
    return token;
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  /** The message in the body of a failure. */
  private static String said(Object body) throws IOException {
    if (body instanceof InputStream stream) {
      try (stream) {
        return Json.text(new String(stream.readAllBytes(), StandardCharsets.UTF_8), "detail");
      }
    }
    return Json.text(String.valueOf(body), "detail");
  }

  /** The next line, which is short; empty at the end. */
  private static String line(InputStream body) throws IOException {
    StringBuilder line = new StringBuilder();
    for (int next = body.read(); next >= 0 && next != '\n'; next = body.read()) {
      line.append((char) next);
      if (line.length() > LONGEST_LINE) {
        throw new IOException("the answer of the server is not one of the commit API");
      }
    }
    return line.toString();
  }

  /** Another commit came first; nothing was written. */
  static final class Conflict extends IOException {
    private static final long serialVersionUID = 1L;

    Conflict(String message) {
      super(message);
    }
  }

  /** The server does not do what was asked; nothing was written. */
  static final class Refused extends IOException {
    private static final long serialVersionUID = 1L;

    Refused(String message) {
      super(message);
    }
  }
}
