import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Kafka Streams with a corrector behind HTTP: java -cp 'libs/*' StreamsCorrector.java localhost:9092 INPUT OUTPUT
 * http://localhost:8000
 *
 * <p>A message that is not corrected, for whatever reason, goes on as the classifier made it.
 */
public class StreamsCorrector {
  static final HttpClient HTTP = HttpClient.newHttpClient();

  static String correct(String server, String message) {
    try {
      var to = URI.create(server + "/correct");
      var request = HttpRequest.newBuilder(to).POST(BodyPublishers.ofString(message)).build();
      var answer = HTTP.send(request, BodyHandlers.ofString());
      return answer.statusCode() == 200 ? answer.body() : message;
    } catch (Exception error) {
      return message;
    }
  }

  public static void main(String[] given) {
    var settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-corrector");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put("auto.offset.reset", "earliest");
    var builder = new StreamsBuilder();
    builder.<String, String>stream(given[1])
        .mapValues(message -> correct(given[3], message))
        .to(given[2]);
    new KafkaStreams(builder.build(), settings).start();
  }
}
