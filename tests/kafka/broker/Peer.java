// Java's own producer and consumer, for the tests: `java -cp 'libs/*' Peer.java produce|consume SERVERS ...`.
//
//   produce SERVERS          lines on standard input: "config NAME=VALUE ..." makes a new producer; "begin", "commit" and
//                            "abort"; "send TOPIC PARTITION STAMP KEY VALUE [NAME VALUE]..." with texts in base64, "-" is null
//   consume SERVERS TOPIC... every committed record: TOPIC PARTITION OFFSET STAMP KEY VALUE [NAME VALUE]...
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Peer {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("produce")) {
            produce(args[1]);
        } else {
            consume(args[1], Arrays.asList(args).subList(2, args.length));
        }
    }

    static void produce(String servers) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        KafkaProducer<byte[], byte[]> producer = null;
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "config" -> {
                    if (producer != null) {
                        producer.close();
                    }
                    Properties config = new Properties();
                    config.put("bootstrap.servers", servers);
                    for (int i = 1; i < words.length; i++) {
                        config.put(words[i].split("=")[0], words[i].split("=")[1]);
                    }
                    producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
                    if (config.containsKey("transactional.id")) {
                        producer.initTransactions();
                    }
                }
                case "begin" -> producer.beginTransaction();
                case "commit" -> producer.commitTransaction();
                case "abort" -> {
                    producer.flush();
                    producer.abortTransaction();
                }
                default -> {
                    RecordHeaders headers = new RecordHeaders();
                    for (int i = 6; i < words.length; i += 2) {
                        headers.add(new String(bytes(words[i]), "UTF-8"), bytes(words[i + 1]));
                    }
                    producer.send(new ProducerRecord<>(words[1], Integer.valueOf(words[2]), Long.valueOf(words[3]),
                            bytes(words[4]), bytes(words[5]), headers), (done, error) -> {
                                if (error != null) {
                                    error.printStackTrace();
                                    Runtime.getRuntime().halt(1);
                                }
                            });
                }
            }
        }
        producer.close();
    }

    static void consume(String servers, List<String> topics) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", servers);
        config.put("isolation.level", "read_committed");
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            consumer.partitionsFor(topic).forEach(p -> all.add(new TopicPartition(topic, p.partition())));
        }
        consumer.assign(all);
        consumer.seekToBeginning(all);
        var ends = consumer.endOffsets(all);
        StringBuilder out = new StringBuilder();
        while (all.stream().anyMatch(tp -> consumer.position(tp) < ends.get(tp))) {
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                out.append(r.topic()).append(' ').append(r.partition()).append(' ').append(r.offset()).append(' ').append(r.timestamp())
                        .append(' ').append(text(r.key())).append(' ').append(text(r.value()));
                for (Header header : r.headers()) {
                    out.append(' ').append(text(header.key().getBytes("UTF-8"))).append(' ').append(text(header.value()));
                }
                out.append('\n');
            }
        }
        System.out.print(out);
        consumer.close();
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text.equals("=") ? "" : text);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "-" : bytes.length == 0 ? "=" : Base64.getEncoder().encodeToString(bytes);
    }
}
