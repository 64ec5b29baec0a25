import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;

/** Writes maps and lists as JSON, always in insertion order, and bytes in the form the Python tests expect. */
final class Json {
    private static final int LONGEST_VALUE_SPELLED_OUT = 1024;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {
    }

    /** An object whose fields keep the order they are given in: name, value, name, value... */
    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2)
            object.put((String) namesAndValues[i], namesAndValues[i + 1]);
        return object;
    }

    /** One line, for a program that prints one document per line. */
    static String line(Object document) {
        try {
            return MAPPER.writeValueAsString(document);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Indented, for files that people compare. */
    static String pretty(Object document) {
        // The line ending is fixed so that the same case is the same file on every system.
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
        printer.indentObjectsWith(new DefaultIndenter("  ", "\n"));
        try {
            return MAPPER.writer(printer).writeValueAsString(document) + "\n";
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** One line per field, and one per object in a list of objects: for long lists of small things. */
    static String lines(Map<String, Object> document) {
        StringJoiner fields = new StringJoiner(",\n", "{\n", "\n}\n");
        document.forEach((name, value) -> {
            boolean objects = value instanceof List<?> list && !list.isEmpty() && list.get(0) instanceof Map;
            String text = line(value);
            if (objects) {
                StringJoiner items = new StringJoiner(",\n    ", "[\n    ", "\n  ]");
                ((List<?>) value).forEach(item -> items.add(line(item)));
                text = items.toString();
            }
            fields.add("  " + line(name) + ": " + text);
        });
        return fields.toString();
    }

    /** A string if the bytes are UTF-8, else base64; only size and digest if they are long. */
    static Object bytes(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes(bytes);
    }

    static Object bytes(byte[] bytes) {
        if (bytes == null)
            return null;
        if (bytes.length > LONGEST_VALUE_SPELLED_OUT)
            return object("sha256", sha256(bytes), "size", bytes.length);
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException e) {
            return object("base64", Base64.getEncoder().encodeToString(bytes));
        }
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
