// Finds the lamps of a hub with an HTTP interface, such as that of Philips Hue.
import { defineDiscoveryHandler, every, InvalidDetailsError } from '@akrijs/sdk'
import { z } from 'zod'

const Details = z.strictObject({
  /** The address of the hub. The key comes from a Secret: see `discover`. */
  url: z.url({ protocol: /^https?$/ }),
})

const Lights = z.record(
  z.string(),
  z.object({
    uniqueid: z.string(),
    name: z.string(),
    modelid: z.string().optional(),
    state: z.object({ reachable: z.boolean().default(true) }),
  }),
)

export default defineDiscoveryHandler({
  name: 'http-hub',
  shared: true,
  details: Details,
  async *discover({ details, properties, signal, leaveOut }) {
    const key = properties.text('HUB_KEY')
    if (key === undefined)
      throw new InvalidDetailsError('write the key of the hub into discoveryProperties: HUB_KEY')
    for await (const _ of every('10s', { signal })) {
      const devices = []
      for (const [number, light] of Object.entries(await lightsOf(details.url, key, signal))) {
        const { uniqueid: id, name, modelid, state } = light
        if (!state.reachable) leaveOut(name, 'is switched off')
        else {
          const url = new URL(`lights/${number}`, details.url).href
          const properties = { HTTP_HUB_URL: url, HTTP_HUB_NAME: name, HTTP_HUB_MODEL: modelid }
          devices.push({ id, properties })
        }
      }
      yield devices
    }
  },
})

async function lightsOf(hub, key, signal) {
  const response = await fetch(new URL(`api/${key}/lights`, hub), {
    signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]),
  })
  // Not the URL, which has the key.
  if (!response.ok) throw new Error(`the hub answers with HTTP status ${response.status}`)
  return Lights.parse(await response.json())
}
