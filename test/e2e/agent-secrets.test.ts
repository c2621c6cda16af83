import { createHash } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { type HandlerServer, serve } from '@akrijs/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { eventually, World } from './support/world.js'

/** The tokens that the handler got. */
const received = new Set<string | undefined>()

/** Finds one device, and reports a digest of its token, not the token. */
const teller = defineDiscoveryHandler({
  name: 'teller',
  shared: true,
  details: z.unknown(),
  async *discover({ properties }) {
    const token = properties.text('token')
    received.add(token)
    yield [{ id: 'foo0', properties: { DIGEST: token === undefined ? 'none' : digestOf(token) } }]
  },
})

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')
const base64 = (text: string) => Buffer.from(text).toString('base64')

describe.skipIf(missingHere() !== undefined)(`Secrets that handlers are given${unlessHere}`, () => {
  let world: World
  let agent: NodeAgent
  let handler: HandlerServer

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    agent = await NodeAgent.create(NODE_1, { LOG_LEVEL: 'debug' })
    await agent.start()
    handler = await serve(teller, { directory: path.join(agent.directory, 'h'), log: silentLogger })
  })

  afterAll(async () => {
    await handler?.close()
    await agent?.dispose()
    await world?.close()
  })

  const secret = (token: string, annotations = {}) =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'lab', annotations },
      stringData: { token },
    })
  const digests = async () =>
    (await world.instances()).map(({ spec }) => spec.brokerProperties.DIGEST)

  it('A7 reach the handler again after a change, and are in no log and no object', async () => {
    const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token', optional: true } } }
    const discoveryHandler = {
      name: 'teller',
      discoveryDetails: '',
      discoveryProperties: [{ name: 'token', ...from }],
    }
    const configuration = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'cam' },
      spec: { discoveryHandler },
    }
    const values = ['s3cret-word', 'an0ther-word']
    await world.apply(JSON.stringify(configuration))
    await eventually(async () => expect(await digests()).toEqual(['none']))
    for (const value of values) {
      await world.apply(secret(value))
      await eventually(async () => expect(await digests()).toEqual([digestOf(value)]))
      await eventually(async () =>
        expect((await files())['checkpoint.json']).toContain(digestOf(value)),
      )
      await nowhere(values)
    }
    // A restarted agent must not log the Secret either.
    await agent.stop()
    await agent.start()
    await eventually(async () =>
      expect(await agent.output()).toMatch(/agent started.*agent started/s),
    )
    await world.remove('Secret', 'lab')
    await eventually(async () => expect(await digests()).toEqual(['none']))
    // The agent logs at level debug.
    expect(await agent.output()).toContain('"level":"debug"')
    await nowhere(values)
  })

  it('of another namespace are given only while they consent', async () => {
    const other = await World.open()
    try {
      const value = 'fact0ry-word'
      const consent = (namespaces: string | null) =>
        world.api('Secret').patch(world.key('lab'), 'merge', {
          metadata: { annotations: { 'akri.sh/readable-from': namespaces } },
        })
      const found = async () =>
        (await other.instances()).map(({ spec }) => spec.brokerProperties.DIGEST)
      const discovering = (name: string) => other.reportedCondition(name, 'Discovering')
      const refused = (name: string) =>
        eventually(async () =>
          expect(await discovering(name)).toMatchObject({
            reason: 'PropertyRefused',
            message: expect.stringContaining(
              `Secret ${world.namespace}/lab is in another namespace`,
            ),
          }),
        )
      const listening = (name: string) =>
        eventually(async () => expect((await discovering(name))?.reason).toBe('Listening'))
      const spy = (name: string, selector: object) => {
        const secretKeyRef = { name: 'lab', key: 'token', ...selector }
        const discoveryProperties = [{ name: 'token', valueFrom: { secretKeyRef } }]
        return other.apply(
          JSON.stringify({
            apiVersion: 'akri.sh/v0',
            kind: 'Configuration',
            metadata: { name },
            spec: {
              discoveryHandler: { name: 'teller', discoveryDetails: '', discoveryProperties },
            },
          }),
        )
      }
      // Configurations of the Secret's own namespace get the value.
      await world.remove('Configuration', 'cam').catch(() => undefined)
      await eventually(async () => expect(await world.instances()).toEqual([]))
      await world.apply(secret(value))
      // The agent of this test may read all Secrets of the cluster.
      await spy('spy', { namespace: world.namespace })
      await spy('optional', { namespace: world.namespace, optional: true })
      await refused('spy')
      await refused('optional')
      expect(await found()).toEqual([])
      expect(received).not.toContain(value)
      await consent(`x, ${other.namespace}`)
      await listening('spy')
      await listening('optional')
      await eventually(async () =>
        expect(await found()).toEqual([digestOf(value), digestOf(value)]),
      )
      await consent(null)
      await refused('spy')
      await refused('optional')
      await world.apply(secret('an0ther-fact0ry'))
      // A Secret of this name in the own namespace is another object.
      await spy('spy', {})
      await other.apply(secret('own-word'))
      await eventually(async () => expect(await found()).toContain(digestOf('own-word')))
      expect([...received]).toEqual(expect.arrayContaining([value, 'own-word']))
      expect(received).not.toContain('an0ther-fact0ry')
    } finally {
      await other.close()
      await world.remove('Secret', 'lab')
    }
  })

  async function nowhere(values: readonly string[]): Promise<void> {
    const places: Record<string, string> = { ...(await files()), output: await agent.output() }
    for (const kind of ['Instance', 'Configuration', 'Event'])
      places[kind] = JSON.stringify(await objects(kind))
    for (const [place, text] of Object.entries(places))
      for (const value of values)
        for (const spelled of [value, base64(value), Buffer.from(value).toString('hex')])
          expect(text.includes(spelled), `${place} has ${spelled}`).toBe(false)
  }

  /** The files that the agent wrote, by name. */
  async function files(): Promise<Record<string, string>> {
    const found = await readdir(agent.directory, { recursive: true, withFileTypes: true })
    // A file that a rename has just replaced is found by its new name.
    const text = (file: Dirent) =>
      readFile(path.join(file.parentPath, file.name), 'utf8').catch(() => '')
    const read = async (file: Dirent) => [file.name, await text(file)] as const
    return Object.fromEntries(await Promise.all(found.filter((file) => file.isFile()).map(read)))
  }

  function objects(kind: string): Promise<unknown> {
    if (kind !== 'Event') return world.list(kind)
    return world.client.request({
      method: 'GET',
      path: `/api/v1/namespaces/${world.namespace}/events`,
    })
  }
})
