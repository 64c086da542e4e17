// Java's own consumer and Apache Avro's own reader, for the tests: `java -cp ... AvroPeer.java SERVERS TOPIC REGISTRY
// [SCHEMA]`. Each committed record of the topic as a line of JSON: as its writer's schema has it, which the registry
// knows by the number before it, and then, where a schema is given, as who knows that one alone reads it.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class AvroPeer {
    static final HttpClient HTTP = HttpClient.newHttpClient();
    static final Map<Integer, Schema> KNOWN = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Schema mine = args.length > 3 ? new Schema.Parser().parse(args[3]) : null;
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(args[1])) {
                partitions.add(new TopicPartition(args[1], one.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(tp -> consumer.position(tp) < ends.get(tp))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    ByteBuffer value = ByteBuffer.wrap(record.value());
                    if (value.get() != 0) {
                        throw new IllegalStateException("no schema is named");
                    }
                    Schema theirs = schema(value.getInt(), args[2]);
                    System.out.println(read(theirs, theirs, value.slice()));
                    if (mine != null) {
                        System.out.println(read(theirs, mine, value.slice()));
                    }
                }
            }
        }
    }

    static GenericRecord read(Schema theirs, Schema mine, ByteBuffer value) throws Exception {
        byte[] bytes = new byte[value.remaining()];
        value.get(bytes);
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes, null);
        GenericRecord record = new GenericDatumReader<GenericRecord>(theirs, mine).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalStateException("bytes are left over");
        }
        return record;
    }

    static Schema schema(int id, String registry) throws Exception {
        if (!KNOWN.containsKey(id)) {
            URI uri = URI.create(registry + "/schemas/ids/" + id);
            String body = HTTP.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString()).body();
            String text = new ObjectMapper().readTree(body).get("schema").asText();
            KNOWN.put(id, new Schema.Parser().parse(text));
        }
        return KNOWN.get(id);
    }
}
