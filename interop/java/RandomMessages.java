import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Random;

/**
 * Fills messages that Kafka's generator made with random fields: those that a version has, by the schema that the generated class
 * carries. Null where it may be, tagged fields sometimes, texts beyond ASCII.
 */
final class RandomMessages {
    private static final String[] TEXTS = {"", "a", "emails", "größe", "日本語", "\uD83C\uDF0A tide", "x".repeat(130)};
    private static final long[] NUMBERS = {0, 1, -1, 127, -128, 32_767, Integer.MAX_VALUE, Integer.MIN_VALUE, 1L << 52, Long.MAX_VALUE, Long.MIN_VALUE};

    private final Random random;

    RandomMessages(long seed) {
        random = new Random(seed);
    }

    /** Fills a new message, and gives it back. */
    <T> T fill(T message, int version) throws ReflectiveOperationException {
        Schema schema = (Schema) message.getClass().getField("SCHEMA_" + version).get(null);
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values())
                    if (random.nextInt(3) > 0)
                        set(message, field, version, true);
            } else {
                set(message, bound.def, version, false);
            }
        }
        return message;
    }

    private void set(Object message, Field described, int version, boolean isTagged) throws ReflectiveOperationException {
        for (java.lang.reflect.Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || !field.getName().equalsIgnoreCase(described.name.replace("_", "")))
                continue;
            field.setAccessible(true);
            Object value = value(described.type, field.getType(), field.getGenericType(), version, isTagged);
            field.set(message, value);
            return;
        }
        throw new NoSuchFieldException(message.getClass() + " " + described.name);
    }

    private Object value(Type type, Class<?> kind, java.lang.reflect.Type generic, int version, boolean isTagged) throws ReflectiveOperationException {
        if (type.isNullable() && random.nextInt(4) == 0)
            return null;
        // The schema does not tell that a tagged struct may be null; the only one there is may be, and a broker writes it so.
        if (isTagged && type instanceof Schema && random.nextInt(3) == 0)
            return null;
        if (type.isArray()) {
            Type itemType = type.arrayElementType().orElseThrow();
            // A collection with keys of its own is a class that lists its items as a parameter of its parent.
            boolean isPlain = generic instanceof ParameterizedType;
            ParameterizedType parameters = (ParameterizedType) (isPlain ? generic : kind.getGenericSuperclass());
            Class<?> itemKind = (Class<?>) parameters.getActualTypeArguments()[0];
            @SuppressWarnings("unchecked")
            Collection<Object> items = isPlain ? new ArrayList<>() : (Collection<Object>) kind.getConstructor().newInstance();
            for (int count = random.nextInt(4); count > 0; count--)
                items.add(value(itemType, itemKind, itemKind, version, false));
            return items;
        }
        if (kind == boolean.class)
            return random.nextBoolean();
        if (kind == byte.class || kind == Byte.class)
            return (byte) number();
        if (kind == short.class || kind == Short.class)
            return (short) number();
        if (kind == int.class || kind == Integer.class)
            return type == Type.UINT16 ? (int) number() & 0xFFFF : (int) number();
        if (kind == long.class || kind == Long.class)
            return number();
        if (kind == double.class)
            return random.nextInt(4) == 0 ? 0.5 : random.nextDouble() * 1e6;
        if (kind == String.class)
            return TEXTS[random.nextInt(TEXTS.length)];
        if (kind == Uuid.class)
            return random.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
        if (kind == byte[].class) {
            byte[] bytes = new byte[random.nextInt(3) * random.nextInt(100)];
            random.nextBytes(bytes);
            return bytes;
        }
        return fill(kind.getConstructor().newInstance(), version);
    }

    private long number() {
        return random.nextBoolean() ? NUMBERS[random.nextInt(NUMBERS.length)] : random.nextLong() >> random.nextInt(64);
    }

    /** A number up to and without the limit. */
    int below(int limit) {
        return random.nextInt(limit);
    }

    /** Numbers one after the other. */
    static List<Short> versions(short first, short last) {
        List<Short> versions = new ArrayList<>();
        for (short version = first; version <= last; version++)
            versions.add(version);
        return versions;
    }
}
