import * as z from 'zod'

/** The name of a topic, without wildcards. A topic with $ belongs to the broker. */
export const topicName = z
  .string()
  .regex(/^[^\p{C}$+#][^\p{C}+#]{0,255}$/u, 'write a topic without wildcards, such as home/hall')

/** A topic in which a level can be `+`, but not the first one. */
export const topicPattern = z
  .string()
  .max(256)
  .regex(
    /^[^\p{C}$+#/][^\p{C}+#/]*(\/(\+|[^\p{C}+#/]*))*$/u,
    'write a topic whose first level has no wildcard, such as sensors/+/info; # is not allowed',
  )
