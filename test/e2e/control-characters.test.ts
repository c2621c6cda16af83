import type { Instance } from '@akrijs/api'
import { blake2b } from '@noble/hashes/blake2.js'
import { describe, expect, it } from 'vitest'
import { useAgents } from './support/node-agents.js'
import { missing, NODE_1, unless } from './support/nodes.js'
import { echoYaml, eventually, podYaml, type World } from './support/world.js'

// Texts of devices, brokers and authors of Configurations, in a real API server.

/** Clears the screen, forges a line of kubectl, and turns text around. */
const HOSTILE = 'cam\u001b[2J\r\n  Normal  Ready\u202e\u009b1m'
const LINES = 'cam\ufffd[2J\n  Normal  Ready\ufffd\ufffd1m'
/** Details in JSON, in ASCII: an API server refuses YAML with control characters. */
const detailsOf = (details: object) => ({
  discoveryHandler: {
    name: 'debugEcho',
    discoveryDetails: JSON.stringify(details).replace(
      /[^\x20-\x7e]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  },
})
const OBEYED = /(?!\n)[\p{Cc}\p{Bidi_C}\p{Cs}]/u

describe.skipIf(missing() !== undefined)(`control characters in a cluster${unless}`, () => {
  let world: World

  useAgents((opened) => {
    world = opened.world
  })

  it('R3 R69 R106 of a device and of its broker reach no Instance and no container', async () => {
    await world.apply(echoYaml('cam', [], 1, detailsOf({ descriptions: [HOSTILE] })))
    const digest = Buffer.from(blake2b(Buffer.from(HOSTILE), { dkLen: 3 })).toString('hex')
    const name = `cam-${digest}`
    const instance = () => world.get<Instance>('Instance', name)
    await eventually(async () => {
      const { metadata, spec } = (await instance()) ?? expect.fail(`no Instance ${name}`)
      expect(metadata.annotations).toEqual({
        'akri.sh/device-id': LINES.replace('\n', '\ufffd\ufffd'),
      })
      expect(spec.brokerProperties).toEqual({ DEBUG_ECHO_DESCRIPTION: LINES })
    })
    await eventually(async () =>
      expect(await world.allocatables(`akri.sh/${name}`)).toEqual([1, 1]),
    )
    const script =
      'printf "1\\033[2J\\t2\\n" >"$AKRI_BROKER_INFO_DIRECTORY/report"; env; exec sleep 100000'
    await world.apply(podYaml('broker', { [`akri.sh/${name}`]: 1 }, { node: NODE_1, script }))
    await eventually(async () =>
      expect((await instance())?.status?.brokerInfo).toEqual({ report: '1\ufffd[2J\t2\n' }),
    )
    await eventually(async () => {
      const environment = await world.logs('broker')
      expect(environment).toContain('DEBUG_ECHO_DESCRIPTION=cam\ufffd[2J\n')
      expect(environment).not.toMatch(OBEYED)
    })
  })

  it('of an author are in no condition and in no Event', async () => {
    await world.apply(
      echoYaml('cam', [], 1, detailsOf({ [`${HOSTILE}\ud800`]: 1, descriptions: [] })),
    )
    const messages = await eventually(async () => {
      const { conditions = [] } = (await world.reportedStatus('cam', NODE_1)) ?? {}
      const found = conditions
        .filter(({ reason }) => reason === 'InvalidDetails')
        .map(({ message }) => message)
      expect(found).not.toEqual([])
      return found
    })
    expect(messages.join('')).toContain('cam')
    const events = await eventually(async () => {
      const { items: found } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
      })) as { items: { reason: string; message: string }[] }
      const texts = found.filter(({ reason }) => reason === 'InvalidDetails')
      expect(texts.length).toBeGreaterThan(0)
      return texts.map(({ message }) => message)
    })
    for (const text of [...messages, ...events]) {
      expect(text).not.toMatch(OBEYED)
      for (const line of text.split('\n').slice(1)) expect(line).toMatch(/^\| /)
    }
  })
})
