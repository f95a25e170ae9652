import java.io.StringReader;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.*;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Sends the insertion of a row through the transforms and converters of a connector's settings.
 *
 * The settings and the row's NAME=VALUE in, the parts of the record in base64 out.
 */
public class Route {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new StringReader(arguments[0]));
        SourceRecord record = inserted(Arrays.copyOfRange(arguments, 1, arguments.length));
        for (String name : settings.getProperty("transforms").split(",")) {
            Map<String, String> own = below(settings, "transforms." + name + ".");
            @SuppressWarnings("unchecked")
            var transform = (Transformation<SourceRecord>) create(own.get("type"));
            transform.configure(own);
            record = transform.apply(record);
        }
        show("topic", record.topic().getBytes());
        show("key", converter(settings, "key", true).fromConnectData(record.topic(), record.keySchema(), record.key()));
        Converter values = converter(settings, "value", false);
        show("value", values.fromConnectData(record.topic(), record.valueSchema(), record.value()));
        var headers = (HeaderConverter) create(settings.getProperty("header.converter"));
        for (Header one : record.headers())
            show("header." + one.key(), headers.fromConnectHeader(record.topic(), one.key(), one.schema(), one.value()));
    }

    static SourceRecord inserted(String[] row) {
        SchemaBuilder columns = SchemaBuilder.struct().name("outbox.Value").optional();
        for (String column : row) columns.field(column.split("=", 2)[0], Schema.STRING_SCHEMA);
        Schema shape = columns.build();
        Struct after = new Struct(shape);
        for (String column : row) after.put(column.split("=", 2)[0], column.split("=", 2)[1]);
        Schema source = SchemaBuilder.struct().name("source").build();
        var envelope = io.debezium.data.Envelope.defineSchema()
            .withName("outbox.Envelope").withRecord(shape).withSource(source).build();
        Struct change = envelope.create(after, new Struct(source), java.time.Instant.ofEpochMilli(1556890294484L));
        return new SourceRecord(Map.of(), Map.of(), "shop.public.outbox", envelope.schema(), change);
    }

    static Converter converter(Properties settings, String part, boolean isKey) throws Exception {
        var found = (Converter) create(settings.getProperty(part + ".converter"));
        found.configure(below(settings, part + ".converter."), isKey);
        return found;
    }

    static Object create(String type) throws Exception {
        return Class.forName(type).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> below(Properties settings, String prefix) {
        Map<String, String> found = new HashMap<>();
        for (String name : settings.stringPropertyNames())
            if (name.startsWith(prefix)) found.put(name.substring(prefix.length()), settings.getProperty(name));
        return found;
    }

    static void show(String name, byte[] bytes) {
        System.out.println(name + " " + Base64.getEncoder().encodeToString(bytes));
    }
}
