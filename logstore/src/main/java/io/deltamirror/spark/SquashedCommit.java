package io.deltamirror.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The commits of several statements to one table as one commit, which leaves the table as they do.
 *
 * <p>Lines stay as Delta Lake wrote them. Of each file, the last action counts, and a file that was added and removed
 * again is gone; of metadata, protocol, each application and each domain, the last one. One statement keeps its own
 * commitInfo, several have one that names them. Commits that cannot be put together are refused when they come.
 */
final class SquashedCommit {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String FEED = "delta.enableChangeDataFeed";

  private final Map<String, FileChange> files = new LinkedHashMap<>();
  private final Map<String, String> latest = new LinkedHashMap<>();
  private final List<String> changeData = new ArrayList<>();
  private final List<Action> statements = new ArrayList<>();
  private boolean hasFiles;
  private boolean isFollowedByRow;
  private Boolean hasFeed;
  private boolean togglesFeed;

  /** The last action of a file, and whether the table had the file before. */
  private record FileChange(String line, boolean isAdd, boolean wasLive) {}

  private record Action(String kind, JsonNode body, String line) {
    static Action of(String line) throws IOException {
      Map.Entry<String, JsonNode> only = JSON.readTree(line).properties().iterator().next();
      return new Action(only.getKey(), only.getValue(), line);
    }

    boolean isOfFile() {
      return kind.equals("add") || kind.equals("remove") || kind.equals("cdc");
    }

    /** Whether readers follow single rows by it: change data, or the version that row tracking gives to rows. */
    boolean followsRows() {
      return kind.equals("cdc") || body.has("defaultRowCommitVersion");
    }

    boolean isMetadata() {
      return kind.equals("metaData");
    }

    /** Whether the table has a change data feed by it. */
    boolean hasFeed() {
      return body.path("configuration").path(FEED).asText().equalsIgnoreCase("true");
    }

    boolean isRewritten() {
      return kind.equals("add") && !body.path("dataChange").asBoolean(true);
    }

    /** A file is told from others by its path and its deletion vector. */
    String file() {
      JsonNode vector = body.path("deletionVector");
      return String.join(
          "\n",
          body.path("path").asText(),
          vector.path("storageType").asText(),
          vector.path("pathOrInlineDv").asText(),
          vector.path("offset").asText());
    }

    /** Of the actions with the same subject, the last one counts. */
    String subject() {
      return kind + "\n" + body.path("appId").asText() + "\n" + body.path("domain").asText();
    }
  }

  /** Stores a commit. */
  interface Write {
    void run() throws IOException;
  }

  /** Take a commit, once it is stored; IOException if it cannot be part of a transaction. */
  synchronized void take(List<String> lines, Write write) throws IOException {
    List<Action> actions = new ArrayList<>();
    for (String line : lines) {
      actions.add(Action.of(line));
    }
    require(actions);
    write.run();
    hasFiles |= actions.stream().anyMatch(Action::isOfFile);
    isFollowedByRow |= actions.stream().anyMatch(Action::followsRows);
    actions.forEach(this::take);
  }

  synchronized boolean isEmpty() {
    return statements.isEmpty() && files.isEmpty() && latest.isEmpty() && changeData.isEmpty();
  }

  /** The lines of the one commit, for a table that was at this version. */
  synchronized List<String> lines(long base) throws IOException {
    List<String> lines = new ArrayList<>();
    if (statements.size() == 1) {
      lines.add(statements.get(0).line());
    } else if (statements.size() > 1) {
      lines.add(described(base));
    }
    lines.addAll(latest.values());
    Stream.concat(files.values().stream().map(FileChange::line), changeData.stream()).forEach(lines::add);
    return lines;
  }

  private void require(List<Action> actions) throws IOException {
    String operation = actions.stream()
        .filter(action -> action.kind().equals("commitInfo"))
        .map(action -> action.body().path("operation").asText())
        .findFirst()
        .orElse("A statement");
    if (operation.equals("STREAMING UPDATE")) {
      throw refused(operation, "a stream records its progress elsewhere; begin a transaction in foreachBatch");
    }
    if (actions.stream().anyMatch(Action::isRewritten)) {
      throw refused(operation, "it writes rows again that do not change; run it on its own");
    }
    boolean follows = isFollowedByRow || actions.stream().anyMatch(Action::followsRows);
    if (follows && hasFiles && actions.stream().anyMatch(Action::isOfFile)) {
      throw refused(operation, "an earlier statement of it changed the table, whose change data feed or row tracking "
          + "takes one change a version; use one MERGE, or two transactions");
    }
    boolean toggles = togglesFeed || actions.stream().anyMatch(this::toggles);
    if (toggles && (hasFiles || actions.stream().anyMatch(Action::isOfFile))) {
      throw refused(operation, "it turns the change data feed off and on again around a change of rows, which the feed "
          + "would tell wrongly; change the property in a transaction of its own");
    }
  }

  private boolean toggles(Action action) {
    return action.isMetadata() && hasFeed != null && hasFeed != action.hasFeed();
  }

  private void take(Action action) {
    if (action.isMetadata()) {
      togglesFeed |= toggles(action);
      hasFeed = action.hasFeed();
    }
    switch (action.kind()) {
      case "commitInfo" -> statements.add(action);
      case "cdc" -> changeData.add(action.line());
      case "add" -> files.merge(
          action.file(),
          new FileChange(action.line(), true, false),
          (before, added) -> new FileChange(added.line(), true, before.wasLive()));
      case "remove" -> files.compute(action.file(), (file, before) ->
          before == null || before.wasLive() ? new FileChange(action.line(), false, true) : null);
      default -> latest.put(action.subject(), action.line());
    }
  }

  /** The commitInfo of several statements: that of the last, with the names of all. */
  private String described(long base) throws IOException {
    ArrayNode names = JSON.createArrayNode();
    statements.forEach(each -> names.add(each.body().path("operation").asText()));
    ObjectNode info = statements.get(statements.size() - 1).body().deepCopy();
    info.put("operation", "TRANSACTION");
    info.set("operationParameters", JSON.createObjectNode().put("statements", names.toString()));
    info.put("readVersion", base);
    info.put("isBlindAppend", statements.stream().allMatch(each -> each.body().path("isBlindAppend").asBoolean()));
    info.remove("operationMetrics");
    return JSON.writeValueAsString(JSON.createObjectNode().set("commitInfo", info));
  }

  private static IOException refused(String operation, String why) {
    return new IOException(operation + " cannot be part of this transaction of deltamirror: " + why + ".");
  }
}
