import type { Configuration, ConfigurationName } from '@akrijs/api'
import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { listenerWarnings } from '../../../test/support/listener-warnings.js'
import {
  type DataReference,
  referencesOf,
  referenceText,
  resolveReferences,
} from '../discovery/property-references.js'
import { PropertyForbiddenError, PropertyRefusedError, PropertyUnreadableError } from '../errors.js'
import { configurationWith } from '../testing/objects.js'
import { ObjectStore } from './object-store.js'
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
  const client = await api.open()
  sources = new PropertySources(
    { client, clock, log: silentLogger, configurations },
    { random: () => 0 },
  )
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

/** The object, for the first Configuration that refers to it. */
async function look(which: DataReference) {
  const configuration = configurations
    .list()
    .find((each) => referencesOf(each).map(referenceText).includes(referenceText(which)))
  return sources.look(configuration ?? expect.fail(), which)
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
  await eventually(() => expect(look(reference)).rejects.toThrow(PropertyUnreadableError))
}

describe('the source of a property', () => {
  it('adds few listeners to each signal for many Configurations and Secrets', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `many-${index}`)
    const warnings = await listenerWarnings(async () => {
      for (const name of names) putSecret('secret', name)
      for (const name of names)
        configurations.put(configurationOf(name, { secretKeyRef: { name, key: 'k' } }))
      await Promise.all(
        names.map((name) => look({ kind: 'Secret', key: objectKey('default', name) })),
      )
      await eventually(() => expect(watched()).toHaveLength(30))
      stop.abort()
      await ran
    })
    expect(warnings).toEqual([])
  })

  it('A7 is missing again after the API server answers again', async () => {
    expect(await look(reference)).toBeUndefined()
    await failing()
    api.refusal = () => undefined
    await inSteps(
      clock,
      async () => {
        expect(await look(reference)).toBeUndefined()
      },
      1000,
    )
  })

  it('keeps the data of a Secret while the API server does not answer', async () => {
    putSecret('secret')
    expect((await look(reference))?.data).toEqual(new Map([['k', Buffer.from('secret')]]))
    await watching('secrets lab')
    refuse(500)
    api.cut()
    await eventually(() => expect(api.watches.size).toBe(0))
    await clock.advance(60_000)
    expect((await look(reference))?.data.size).toBe(1)
  })

  it('fails with the answer of a server that forbids the read', async () => {
    refuse(403)
    const refused = look(reference)
    await expect(refused).rejects.toThrow(PropertyForbiddenError)
    await expect(refused).rejects.toThrow(
      /^Secret default\/lab cannot be read: .*403.* Role akri-agent-read-secrets .* default$/,
    )
  })

  it('A7 calls listeners for each change of a Secret, and for its end', async () => {
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    await look(reference)
    await watching('secrets lab')
    const before = told.length
    putSecret('new')
    await eventually(async () =>
      expect((await look(reference))?.data.get('k')).toEqual(Buffer.from('new')),
    )
    api.remove(`${SECRETS}/lab`)
    await eventually(async () => expect(await look(reference)).toBeUndefined())
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
    await look(reference)
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    putSecret('new')
    await eventually(() => expect(told).toHaveLength(2))
    expect(told).toEqual(['default/cam', 'default/both'])
  })

  it('is text in data of a ConfigMap, and base64 in binaryData and in a Secret', async () => {
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
    expect((await look(mapReference))?.data).toEqual(
      new Map([
        ['raw', Buffer.from(bytes)],
        ['text', Buffer.from('grün\n')],
        ['word', Buffer.from(base64('word'))],
      ]),
    )
    expect((await look(reference))?.data).toEqual(
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
    configurations.put(
      configurationOf(
        'cam',
        { configMapKeyRef: { name: 'lab', key: 'k' } },
        { secretKeyRef: { name: 'lab', key: 'k' } },
      ),
    )
    api.put(`${path}/lab`, {})
    expect((await look(which))?.data).toEqual(new Map())
  })

  it('A7 is watched only while a Configuration refers to it', async () => {
    configurations.put(configurationOf('other', { secretKeyRef: { name: 'lab', key: 'k' } }))
    putSecret('old')
    await look(reference)
    await watching('secrets lab')
    configurations.remove(objectKey('default', 'cam'))
    putSecret('new')
    await eventually(async () =>
      expect((await look(reference))?.data.get('k')).toEqual(Buffer.from('new')),
    )
    // The same name of another kind is another object.
    configurations.put(configurationOf('other', { configMapKeyRef: { name: 'lab', key: 'k' } }))
    await watching()
    await look(mapReference)
    await watching('configmaps lab')
    configurations.remove(objectKey('default', 'other'))
    await watching()
    // What was known of it then says nothing of now.
    api.remove(`${SECRETS}/lab`)
    const again = configurationOf('again', { secretKeyRef: { name: 'lab', key: 'k' } })
    configurations.put(again)
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    expect(await look(reference)).toBeUndefined()
    putSecret('anew')
    await eventually(() => expect(told).toContain(keyOf(again)))
    await eventually(async () =>
      expect((await look(reference))?.data.get('k')).toEqual(Buffer.from('anew')),
    )
  })

  describe('of another namespace', () => {
    const theirs = '/api/v1/namespaces/factory/secrets/cameras'
    const from = { secretKeyRef: { name: 'cameras', namespace: 'factory', key: 'k' } }
    const configuration = configurationOf('cam', from)
    let told: ObjectKey[]
    const resolve = async (of = configuration) =>
      (await resolveReferences(of, (which) => sources.look(of, which))).text('p0')
    const put = (annotations?: object) =>
      api.put(theirs, {
        metadata: { ...(annotations && { annotations }) },
        data: { k: base64('s3cret') },
      })
    const consent = (namespaces: string) => put({ 'akri.sh/readable-from': namespaces })
    const reads = () => api.requests.filter(({ path }) => path.includes('/factory/'))
    const isWatch = ({ query }: { query: URLSearchParams }) => query.has('watch')
    /** The next read, after the shortest wait. */
    const recheck = async (wait = 2000) => {
      const before = reads().length
      await eventually(() => expect(clock.sleeping).toEqual([wait]))
      await clock.advance(wait)
      await eventually(() => expect(reads().length).toBeGreaterThan(before))
    }

    beforeEach(() => {
      configurations.put(configuration)
      told = []
      sources.onChange((key) => told.push(key), stop.signal)
    })

    it('counts and is watched while its annotation consents; listeners hear changes', async () => {
      put()
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      expect(reads().map(isWatch)).toEqual([false])
      await recheck()
      await recheck(4000)
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      expect(reads().map(isWatch)).toEqual([false, false, false])
      expect(told).toEqual([])
      consent('line, default')
      await recheck(8000)
      await eventually(() => expect(told).toEqual(['default/cam']))
      expect(await resolve()).toBe('s3cret')
      await watching('secrets cameras')
      consent('line')
      await eventually(() => expect(told).toHaveLength(2))
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      await watching()
      consent('*')
      await recheck()
      await eventually(() => expect(told).toHaveLength(3))
      expect(await resolve()).toBe('s3cret')
      api.remove(theirs)
      await eventually(() => expect(told).toHaveLength(4))
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      await watching()
    })

    it('is read rarely without consent, and all such objects once a second in all', async () => {
      for (let index = 0; index < 90; index++)
        configurations.put(
          configurationOf(`c${index}`, {
            secretKeyRef: { name: `s${index}`, namespace: 'factory', key: 'k' },
          }),
        )
      for (const each of configurations.list())
        await expect(resolve(each)).rejects.toThrow(PropertyRefusedError)
      // The waits grow before this is the rule.
      await clock.advance(40_000)
      const before = reads().length
      await clock.advance(200_000)
      expect(reads().length - before).toBeLessThan(201)
      expect(reads().some(isWatch)).toBe(false)
      expect(api.watches.size).toBe(0)
    })

    it('is refused also while it is watched for a Configuration of its namespace', async () => {
      put()
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      const key = { secretKeyRef: { name: 'cameras', key: 'k' } }
      const home = configurationOf('home', key)
      const metadata = { ...home.metadata, namespace: 'factory' }
      configurations.put({ ...home, metadata })
      expect(await resolve({ ...home, metadata })).toBe('s3cret')
      await watching('secrets cameras')
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
      configurations.remove(objectKey('factory', 'home'))
      await watching()
      await expect(resolve()).rejects.toThrow(PropertyRefusedError)
    })
  })

  it('is gone after the server forbids the read, and comes back with the right', async () => {
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    putSecret('secret')
    await look(reference)
    await watching('secrets lab')
    refuse(403)
    api.cut()
    await inSteps(
      clock,
      async () => {
        await expect(look(reference)).rejects.toThrow(/Secret default\/lab cannot be read: .*403/)
      },
      1000,
    )
    expect(told).toEqual(['default/cam'])
    // An outage after that is no reason to use the value again.
    refuse(500)
    await clock.advance(60_000)
    await expect(look(reference)).rejects.toThrow(/Secret default\/lab cannot be read: .*403/)
    api.refusal = () => undefined
    await inSteps(
      clock,
      async () => {
        expect((await look(reference))?.data.size).toBe(1)
      },
      30_000,
    )
    expect(told).toEqual(['default/cam', 'default/cam'])
  })

  it('does not call listeners for a change that leaves its data as it is', async () => {
    putSecret('same')
    await look(reference)
    await watching('secrets lab')
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    const data = { k: base64('same') }
    api.put(`${SECRETS}/lab`, { metadata: { labels: { a: 'b' } }, data })
    putSecret('new')
    await eventually(async () =>
      expect((await look(reference))?.data.get('k')).toEqual(Buffer.from('new')),
    )
    expect(told).toEqual(['default/cam'])
  })

  it('calls listeners once in 5 s if it changes all the time, and after the last', async () => {
    putSecret('0')
    await look(reference)
    await watching('secrets lab')
    const told: unknown[] = []
    sources.onChange((key) => told.push(key), stop.signal)
    for (let value = 1; value <= 50; value++) putSecret(String(value))
    await eventually(async () =>
      expect((await look(reference))?.data.get('k')).toEqual(Buffer.from('50')),
    )
    expect(told).toHaveLength(10)
    await clock.advance(5000)
    expect(told).toHaveLength(11)
    await clock.advance(60_000)
    expect(told).toHaveLength(11)
  })

  it('tells many Configurations of a namespace within a budget, and each of the last', async () => {
    const keys: ObjectKey[] = []
    for (let index = 0; index < 400; index++) {
      const configuration = configurationOf(`many-${index}`, {
        secretKeyRef: { name: 'lab', key: 'k', optional: true },
      })
      configurations.put(configuration)
      keys.push(keyOf(configuration))
    }
    await look(reference)
    await watching('secrets lab')
    const heard: ObjectKey[] = []
    sources.onChange((key) => heard.push(key), stop.signal)
    putSecret('one')
    await eventually(() => expect(heard).toHaveLength(200))
    putSecret('two')
    await eventually(async () => {
      const value = (await look(reference))?.data.get('k')
      expect(String(Buffer.from(value ?? []))).toBe('two')
    })
    await clock.advance(1000)
    expect(heard).toHaveLength(220)
    await clock.advance(60_000)
    expect(new Set(heard.slice(200))).toEqual(
      new Set([...keys, keyOf(configurations.list()[0] ?? expect.fail())]),
    )
  })

  it('has at most 256 KiB of data', async () => {
    const bytes = (size: number) => ({ data: { k: Buffer.alloc(size, 1).toString('base64') } })
    api.put(`${SECRETS}/lab`, bytes(256 * 1024))
    const cam = configurations.list()[0] ?? expect.fail()
    const resolve = () => resolveReferences(cam, (which) => sources.look(cam, which))
    expect((await resolve()).text('p0')?.length).toBe(256 * 1024)
    await watching('secrets lab')
    api.put(`${SECRETS}/lab`, bytes(256 * 1024 + 1))
    await eventually(() => expect(resolve()).rejects.toThrow('has more than 262144 bytes of data'))
    expect((await look(reference))?.data.size).toBe(0)
  })

  it('is refused beyond the bounds until another Configuration makes room', async () => {
    stop.abort()
    await ran
    stop = new AbortController()
    sources = new PropertySources(
      { client: await api.open(), clock, log: silentLogger, configurations },
      { bounds: { perAgent: 2, perNamespace: 1 } },
    )
    ran = sources.run(stop.signal)
    const of = (namespace: string, name: string, secret: string) => {
      const { metadata, ...rest } = configurationOf(name, {
        secretKeyRef: { name: secret, key: 'k', optional: true },
      })
      const made = { ...rest, metadata: { ...metadata, namespace, creationTimestamp: name } }
      configurations.put(made)
      return made
    }
    const resolve = (which: Configuration) =>
      resolveReferences(which, (object) => sources.look(which, object))
    const second = of('default', '2', 'other')
    const same = of('default', '3', 'lab')
    const other = of('hall', '4', 'lab')
    const last = of('line', '5', 'lab')
    for (const each of [configurations.list()[0] ?? expect.fail(), same, other])
      await expect(resolve(each)).resolves.toBeDefined()
    await watching('secrets lab', 'secrets lab')
    await expect(resolve(second)).rejects.toThrow(PropertyRefusedError)
    await expect(resolve(second)).rejects.toThrow(
      'with this one, the Configurations of namespace default would use more than 1 Secrets',
    )
    await expect(resolve(last)).rejects.toThrow(
      'with this one, all Configurations of this agent would use more than 2 Secrets',
    )
    configurations.remove(objectKey('hall', '4'))
    await watching('secrets lab')
    await expect(resolve(last)).resolves.toBeDefined()
    await expect(resolve(second)).rejects.toThrow(PropertyRefusedError)
  })

  it('is no longer watched after the end of the agent', async () => {
    await look(reference)
    await watching('secrets lab')
    stop.abort()
    await ran
    await watching()
  })
})
