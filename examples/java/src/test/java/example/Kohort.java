package example;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A broker in its own process, and its control API (docs/control.md). */
final class Kohort implements AutoCloseable {
    private final HttpClient http = HttpClient.newHttpClient();
    private final Process process;
    private final String control;
    final String bootstrapServers;

    Kohort() throws IOException {
        String serve = "kohort serve --port 0 --control-port 0 --control-preset instant --log-level error";
        process = new ProcessBuilder(serve.split(" "))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()));
        bootstrapServers = after("listening on ", lines.readLine());
        control = after("control ", lines.readLine());
    }

    /** Fails the test with the response's error if its status is not 200. */
    String request(String method, String path, String json) throws Exception {
        HttpRequest sent = HttpRequest.newBuilder(URI.create(control + path))
                .method(method, HttpRequest.BodyPublishers.ofString(json))
                .build();
        HttpResponse<String> response = http.send(sent, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new AssertionError(method + " " + path + ": " + response.body());
        }
        return response.body();
    }

    String post(String path, String json) throws Exception {
        return request("POST", path, json);
    }

    String get(String path) throws Exception {
        return request("GET", path, "");
    }

    @Override
    public void close() throws Exception {
        process.destroy();
        process.waitFor();
    }

    private static String after(String prefix, String line) {
        Matcher found = Pattern.compile(Pattern.quote(prefix) + "(\\S+)").matcher(String.valueOf(line));
        if (!found.find()) {
            throw new IllegalStateException("kohort did not start: " + line);
        }
        return found.group(1);
    }
}
