import {
  type DeviceLists,
  defineDiscoveryHandler,
  defineError,
  every,
  withTimeLimit,
} from '@akrijs/sdk'
import { z } from 'zod'

/** The longest answer, in characters. */
const MAX_LENGTH = 1024 * 1024
/** The time for a complete answer, in milliseconds. */
const TIMEOUT_MS = 5000

/** The endpoint does not answer with a list of sensors. */
class HttpSensorError extends defineError('AKRI_ERR_HTTP_SENSOR', 'transient') {}

const Sensors = z.array(z.object({ id: z.string().min(1), url: z.url() }))

/** Finds the sensors in the list of a JSON endpoint: `[{ "id": "…", "url": "…" }]`. */
export default defineDiscoveryHandler({
  name: 'http-sensor',
  shared: true,
  details: z.strictObject({ url: z.url(), intervalMs: z.number().min(10).default(10_000) }),
  async *discover({ details, signal }): DeviceLists {
    for await (const _ of every(details.intervalMs, { signal })) {
      const sensors = await withTimeLimit(TIMEOUT_MS, signal, (limited) =>
        listSensors(details.url, limited),
      )
      yield sensors.map(({ id, url }) => ({ id, properties: { SENSOR_URL: url } }))
    }
  },
})

async function listSensors(url: string, signal: AbortSignal): Promise<z.infer<typeof Sensors>> {
  const response = await fetch(url, { signal })
  if (!response.ok) throw new HttpSensorError(`${url} answers ${response.status}`)
  let text = ''
  for await (const part of (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(
    new TextDecoderStream(),
  )) {
    text += part
    if (text.length > MAX_LENGTH)
      throw new HttpSensorError(`${url} sends more than ${MAX_LENGTH} characters`)
  }
  return Sensors.parse(JSON.parse(text))
}
