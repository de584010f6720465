package io.deltamirror.spark;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Single values of the small documents that the commit API answers with: the JDK has no reader of JSON. */
final class Json {
  private static final Pattern ESCAPE = Pattern.compile("\\\\(u([0-9a-fA-F]{4})|.)");

  private Json() {}

  /** The text of a field; empty if there is none. */
  static String text(String document, String field) {
    Matcher found = Pattern.compile("\"" + field + "\":\"((?:[^\"\\\\]|\\\\.)*+)\"").matcher(document);
    return found.find() ? ESCAPE.matcher(found.group(1)).replaceAll(Json::unescaped) : "";
  }

  /** The whole number of a field; none if it is null or not there. */
  static Optional<Long> number(String document, String field) {
    Matcher found = Pattern.compile("\"" + field + "\":(-?[0-9]{1,18})[,}]").matcher(document);
    return found.find() ? Optional.of(Long.parseLong(found.group(1))) : Optional.empty();
  }

  /** Whether a field says so. */
  static boolean isTrue(String document, String field) {
    return Pattern.compile("\"" + field + "\":true[,}]").matcher(document).find();
  }

  private static String unescaped(java.util.regex.MatchResult escape) {
    String text = escape.group(1);
    String plain = switch (text.charAt(0)) {
      case 'n' -> "\n";
      case 't' -> "\t";
      case 'r' -> "\r";
      case 'b' -> "\b";
      case 'f' -> "\f";
      case 'u' -> String.valueOf((char) Integer.parseInt(escape.group(2), 16));
      default -> text;
    };
    return Matcher.quoteReplacement(plain);
  }
}
