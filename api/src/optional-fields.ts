import { isRecord } from '@akrijs/runtime'
import type * as z from 'zod'

// Optional fields in zod schemas. The API server treats null as absent.

/** A field whose value is `standard` if it is absent. */
export function orDefault<T extends z.ZodType>(schema: T, standard: z.output<T>) {
  return schema.nullish().transform((value) => value ?? standard)
}

/** A field that may be absent. */
export function absentOr<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined)
}

/** zod keeps keys whose value is undefined. In our types such keys are absent. */
export function withoutUndefined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutUndefined)
  if (!isRecord(value)) return value
  const present = Object.entries(value).filter(([, inner]) => inner !== undefined)
  return Object.fromEntries(present.map(([key, inner]) => [key, withoutUndefined(inner)]))
}
