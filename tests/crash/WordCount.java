import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of the topic `lines` with Kafka Streams, and writes each count to the topic
 * `counts`. Arguments: the bootstrap server, and a folder for its state.
 */
public class WordCount {
    static final int THREADS = 2;

    public static void main(String[] args) {
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("state.dir", args[1]);
        config.put("application.id", "word-count");
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("num.stream.threads", THREADS);
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("statestore.cache.max.bytes", 0); // would merge counts
        config.put("repartition.purge.interval.ms", 100);
        // Small transactions, whose records are in the logs long before their ends.
        config.put("commit.interval.ms", 200);
        config.put("consumer.max.poll.records", 10);
        config.put("producer.linger.ms", 0);
        // The successor of a killed application waits for the end of its session and transaction.
        config.put("consumer.session.timeout.ms", 1500);
        config.put("consumer.heartbeat.interval.ms", 300);
        config.put("producer.transaction.timeout.ms", 2000);
        // The changelog is compacted all the time, including transactions and their markers.
        config.put("topic.segment.ms", 100);
        config.put("topic.min.cleanable.dirty.ratio", 0.01);
        config.put("topic.delete.retention.ms", 0);

        var builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts");
        var streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            // As with Kafka, the end of a transaction that timed out while the broker was down.
            var timedOut = error.getCause() instanceof InvalidTxnStateException;
            return timedOut ? StreamThreadExceptionResponse.REPLACE_THREAD : StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }
}
