import type { Configuration, ConfigurationName } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { ObjectStore } from '@akrijs/standalone'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { resolveReferences } from '../core/discovery/property-references.js'
import { PropertyRefusedError } from '../errors.js'
import { configurationWith } from '../testing/objects.js'
import { PropertySources } from './property-sources.js'

const SECRETS = '/api/v1/namespaces/default/secrets'
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps'
const reference = { kind: 'Secret', key: objectKey('default', 'lab') } as const
const mapReference = { ...reference, kind: 'ConfigMap' } as const

let clock: ManualClock
let api: FakeApiServer
let configurations: ObjectStore<Configuration>
let sources: PropertySources
let stop: AbortController
let ran: Promise<void>

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  configurations = new ObjectStore()
  configurations.put(
    configurationOf('cam', { secretKeyRef: { name: 'lab', key: 'k', optional: true } }),
  )
  sources = new PropertySources({
    client: await api.open(),
    clock,
    log: silentLogger,
    configurations,
  })
  stop = new AbortController()
  ran = sources.run(stop.signal)
})

afterEach(async () => {
  stop.abort()
  await ran
  await api.close()
})

type Property = Configuration['spec']['discoveryHandler']['discoveryProperties'][number]
type ValueFrom = Extract<Property, { valueFrom: unknown }>['valueFrom']

/** A Configuration whose properties are taken from there. */
function configurationOf(name: string, ...from: readonly ValueFrom[]): Configuration {
  const discoveryProperties = from.map((valueFrom, index) => ({ name: `p${index}`, valueFrom }))
  const discoveryHandler = { name: 'told', discoveryDetails: '', discoveryProperties }
  return configurationWith({ discoveryHandler }, { name: name as ConfigurationName })
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
const putSecret = (value: string, name = 'lab') =>
  api.put(`${SECRETS}/${name}`, { data: { k: base64(value) } })
const refuse = (status: number) => {
  api.refusal = () => ({ status, message: 'refused' })
}

/** The objects that are watched, as `<plural> <name>`. */
const watched = () =>
  Array.from(api.watches, ({ path, query }) =>
    [path.slice(path.lastIndexOf('/') + 1), query.get('fieldSelector')?.split('=')[1]].join(' '),
  ).sort()
const watching = (...objects: readonly string[]) =>
  eventually(() => expect(watched()).toEqual(objects))

/** The server fails for a moment: what watches it is cut off, and does not come in again. */
async function failing(): Promise<void> {
  await watching('secrets lab')
  refuse(500)
  api.cut()
  await eventually(() => expect(sources.look(reference)).rejects.toThrow('cannot be read'))
}

describe('the source of a property', () => {
  it('A7 is missing again after the API server answers again', async () => {
    expect(await sources.look(reference)).toBeUndefined()
    await failing()
    api.refusal = () => undefined
    await eventually(async () => {
      await clock.advance(1000)
      expect(await sources.look(reference)).toBeUndefined()
    })
  })

  it('keeps the data of a Secret while the API server does not answer', async () => {
    putSecret('secret')
    expect((await sources.look(reference))?.data).toEqual(new Map([['k', Buffer.from('secret')]]))
    await watching('secrets lab')
    refuse(500)
    api.cut()
    await eventually(() => expect(api.watches.size).toBe(0))
    await clock.advance(60_000)
    expect((await sources.look(reference))?.data.size).toBe(1)
  })

  it('fails with the answer of a server that forbids the read', async () => {
    refuse(403)
    await expect(sources.look(reference)).rejects.toThrow(
      /Secret default\/lab cannot be read: .*403/,
    )
  })

  it('A7 calls listeners for each change of a Secret, and for its end', async () => {
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    await sources.look(reference)
    await watching('secrets lab')
    const before = told.length
    putSecret('new')
    await eventually(async () =>
      expect((await sources.look(reference))?.data.get('k')).toEqual(Buffer.from('new')),
    )
    api.remove(`${SECRETS}/lab`)
    await eventually(async () => expect(await sources.look(reference)).toBeUndefined())
    expect(told.slice(before)).toEqual(['default/cam', 'default/cam'])
  })

  it('A7 calls listeners only for Configurations that refer to the Secret', async () => {
    const other = configurationOf('other', { secretKeyRef: { name: 'elsewhere', key: 'k' } })
    const both = configurationOf(
      'both',
      { secretKeyRef: { name: 'elsewhere', key: 'k' } },
      { secretKeyRef: { name: 'lab', key: 'x' } },
    )
    for (const configuration of [other, both]) configurations.put(configuration)
    await sources.look(reference)
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    putSecret('new')
    await eventually(() => expect(told).toHaveLength(2))
    expect(told).toEqual(['default/cam', 'default/both'])
  })

  it('is text in the data of a ConfigMap, which wins over binaryData, and base64 in binaryData and in a Secret', async () => {
    const bytes = Uint8Array.of(0, 0xff, 0x80)
    const encoded = Buffer.from(bytes).toString('base64')
    configurations.put(
      configurationOf(
        'cam',
        { configMapKeyRef: { name: 'lab', key: 'k' } },
        { secretKeyRef: { name: 'lab', key: 'k' } },
      ),
    )
    // A text that is valid base64 is a text all the same.
    const data = { text: 'grün\n', word: base64('word') }
    api.put(`${CONFIG_MAPS}/lab`, { data, binaryData: { raw: encoded, word: encoded } })
    api.put(`${SECRETS}/lab`, { data: { raw: encoded, word: base64('word') } })
    expect((await sources.look(mapReference))?.data).toEqual(
      new Map([
        ['raw', Buffer.from(bytes)],
        ['text', Buffer.from('grün\n')],
        ['word', Buffer.from(base64('word'))],
      ]),
    )
    expect((await sources.look(reference))?.data).toEqual(
      new Map([
        ['raw', Buffer.from(bytes)],
        ['word', Buffer.from('word')],
      ]),
    )
    await watching('configmaps lab', 'secrets lab')
  })

  it.each([
    ['ConfigMap', CONFIG_MAPS, mapReference],
    ['Secret', SECRETS, reference],
  ] as const)('is nothing in a %s without data', async (_, path, which) => {
    api.put(`${path}/lab`, {})
    expect((await sources.look(which))?.data).toEqual(new Map())
  })

  it('A7 is watched only while a Configuration refers to it', async () => {
    configurations.put(configurationOf('other', { secretKeyRef: { name: 'lab', key: 'k' } }))
    putSecret('old')
    await sources.look(reference)
    await watching('secrets lab')
    configurations.remove(objectKey('default', 'cam'))
    putSecret('new')
    await eventually(async () =>
      expect((await sources.look(reference))?.data.get('k')).toEqual(Buffer.from('new')),
    )
    // The same name of another kind is another object.
    configurations.put(configurationOf('other', { configMapKeyRef: { name: 'lab', key: 'k' } }))
    await watching()
    await sources.look(mapReference)
    await watching('configmaps lab')
    configurations.remove(objectKey('default', 'other'))
    await watching()
    // What was known of it then says nothing of now.
    api.remove(`${SECRETS}/lab`)
    const again = configurationOf('again', { secretKeyRef: { name: 'lab', key: 'k' } })
    configurations.put(again)
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    expect(await sources.look(reference)).toBeUndefined()
    putSecret('anew')
    await eventually(() => expect(told).toContain(keyOf(again)))
    await eventually(async () =>
      expect((await sources.look(reference))?.data.get('k')).toEqual(Buffer.from('anew')),
    )
  })

  it('of another namespace counts while its annotation consents, and listeners hear of both changes', async () => {
    const theirs = '/api/v1/namespaces/factory/secrets/cameras'
    const from = { secretKeyRef: { name: 'cameras', namespace: 'factory', key: 'k' } }
    const configuration = configurationOf('cam', from)
    configurations.put(configuration)
    const resolve = async () =>
      (await resolveReferences(configuration, (which) => sources.look(which))).text('p0')
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    const put = async (annotations?: object) => {
      const before = told.length
      const data = { k: base64('s3cret') }
      api.put(theirs, { metadata: { ...(annotations && { annotations }) }, data })
      await eventually(() => expect(told.length).toBeGreaterThan(before))
    }
    await expect(resolve()).rejects.toThrow(PropertyRefusedError)
    await watching('secrets cameras')
    await put()
    await expect(resolve()).rejects.toThrow(PropertyRefusedError)
    await put({ 'akri.sh/readable-from': 'line, default' })
    expect(await resolve()).toBe('s3cret')
    await put({ 'akri.sh/readable-from': 'line' })
    await expect(resolve()).rejects.toThrow(PropertyRefusedError)
    await put({ 'akri.sh/readable-from': '*' })
    expect(await resolve()).toBe('s3cret')
    await put()
    await expect(resolve()).rejects.toThrow(PropertyRefusedError)
  })

  it('is no longer watched after the end of the agent', async () => {
    await sources.look(reference)
    await watching('secrets lab')
    stop.abort()
    await ran
    await watching()
  })
})
