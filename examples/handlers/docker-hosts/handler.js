// Finds Docker hosts by their HTTP interface, several at a time, with what each reports of itself.
import { defineDiscoveryHandler, every, messageOf } from '@akrijs/sdk'
import { inParallel } from '@akrijs/sdk/network'
import { z } from 'zod'

const Details = z.strictObject({
  urls: z
    .array(z.url({ protocol: /^https?$/ }))
    .min(1)
    .max(100),
})

const Info = z.object({ ID: z.string(), Name: z.string(), NCPU: z.int(), Architecture: z.string() })

export default defineDiscoveryHandler({
  name: 'docker-hosts',
  shared: true,
  details: Details,
  async *discover({ details: { urls }, signal, leaveOut }) {
    for await (const _ of every('30s', { signal })) {
      const hosts = new Map()
      await inParallel(urls, 8, async (url) => {
        try {
          const host = await hostOf(url, signal)
          hosts.set(host.id, host)
        } catch (error) {
          // A host that is down hides no other.
          leaveOut(url, 'does not answer', messageOf(error))
        }
      })
      yield [...hosts.values()]
    }
  },
})

async function hostOf(url, signal) {
  const response = await fetch(new URL('info', url), {
    signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]),
  })
  if (!response.ok) throw new Error(`HTTP status ${response.status}`)
  const { ID, Name, NCPU, Architecture } = Info.parse(await response.json())
  return {
    id: ID,
    properties: {
      DOCKER_HOSTS_URL: url,
      DOCKER_HOSTS_NAME: Name,
      DOCKER_HOSTS_CPUS: String(NCPU),
      DOCKER_HOSTS_ARCHITECTURE: Architecture,
    },
  }
}
