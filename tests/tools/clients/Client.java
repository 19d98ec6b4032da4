// One request of java.net.http.HttpClient as it is configured by default:
//   java Client.java URL BODY read|cancel
// Prints the status and the body; `cancel` reads the first line of it and gives up.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Iterator;
import java.util.stream.Stream;

public class Client {
  public static void main(String[] args) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(args[1]))
        .build();
    HttpResponse<Stream<String>> response =
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofLines());
    System.out.println(response.statusCode());
    try (Stream<String> lines = response.body()) {
      Iterator<String> line = lines.iterator();
      while (line.hasNext()) {
        System.out.println(line.next());
        if (args[2].equals("cancel")) break;
      }
    }
    System.exit(0);
  }
}
