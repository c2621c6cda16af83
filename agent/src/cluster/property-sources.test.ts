import type { Configuration, ConfigurationName } from '@akrijs/api'
import { type ApiClient, keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { listenerWarnings } from '../../../test/support/listener-warnings.js'
import { PropertyForbiddenError, PropertyRefusedError, PropertyUnreadableError } from '../errors.js'
import type { SourceBounds } from '../limits.js'
import { configurationWith } from '../testing/objects.js'
import { ObjectStore } from './object-store.js'
import {
  type DataReference,
  referencesOf,
  referenceText,
  resolveReferences,
} from './property-references.js'
import { PropertySources } from './property-sources.js'

const SECRETS = '/api/v1/namespaces/default/secrets'
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps'
const reference = { kind: 'Secret', key: objectKey('default', 'lab') } as const
const mapReference = { ...reference, kind: 'ConfigMap' } as const
const fromSecret = { secretKeyRef: { name: 'lab', key: 'k', optional: true } }
const fromMap = { configMapKeyRef: { name: 'lab', key: 'k' } }

let clock: ManualClock
let api: FakeApiServer
let client: ApiClient
let configurations: ObjectStore<Configuration>
let sources: PropertySources
let stop: AbortController
let ran: Promise<void>
/** The Configurations whose listeners were called. */
let told: ObjectKey[]

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  api = new FakeApiServer(clock)
  configurations = new ObjectStore()
  configurations.put(configurationOf('cam', fromSecret))
  client = await api.open()
  start()
})

afterEach(async () => {
  await end()
  await api.close()
})

function start(bounds?: SourceBounds): void {
  const options = { client, clock, log: silentLogger, configurations, random: () => 0 }
  sources = new PropertySources({ ...options, ...(bounds && { bounds }) })
  stop = new AbortController()
  ran = sources.run(stop.signal)
  told = []
  sources.onChange((key) => told.push(key), stop.signal)
}

function end(): Promise<void> {
  stop.abort()
  return ran
}

type Property = Configuration['spec']['discoveryHandler']['discoveryProperties'][number]
type ValueFrom = Extract<Property, { valueFrom: unknown }>['valueFrom']

/** A Configuration whose properties are taken from there. */
function configurationOf(name: string, ...from: readonly ValueFrom[]): Configuration {
  const discoveryProperties = from.map((valueFrom, index) => ({ name: `p${index}`, valueFrom }))
  const discoveryHandler = { name: 'told', discoveryDetails: '', discoveryProperties }
  return configurationWith({ discoveryHandler }, { name: name as ConfigurationName })
}

/** The same with other metadata. */
const placed = (configuration: Configuration, metadata: Partial<Configuration['metadata']>) => ({
  ...configuration,
  metadata: { ...configuration.metadata, ...metadata },
})

const base64 = (text: string) => Buffer.from(text).toString('base64')
const RAW = Buffer.of(0, 0xff, 0x80).toString('base64')
const WORD = base64('word')
const putSecret = (value: string, name = 'lab') =>
  api.put(`${SECRETS}/${name}`, { data: { k: base64(value) } })
const refuse = (status: number) => {
  api.refusal = () => ({ status, message: 'refused' })
}

/** The object, for the first Configuration that refers to it. */
async function look(which: DataReference = reference) {
  const configuration = configurations
    .list()
    .find((each) => referencesOf(each).map(referenceText).includes(referenceText(which)))
  return sources.look(configuration ?? expect.fail(), which)
}
const resolve = (of: Configuration) => resolveReferences(of, (which) => sources.look(of, which))
const showing = (value: string) =>
  eventually(async () => expect((await look())?.data?.get('k')).toEqual(Buffer.from(value)))

/** The objects that are watched, as `<plural> <name>`. */
const watched = () =>
  Array.from(api.watches, ({ path, query }) =>
    [path.slice(path.lastIndexOf('/') + 1), query.get('fieldSelector')?.split('=')[1]].join(' '),
  ).sort()
const watching = (...objects: readonly string[]) =>
  eventually(() => expect(watched()).toEqual(objects))

/** The agent has looked at the Secret, and watches it. */
async function following(value?: string): Promise<void> {
  if (value !== undefined) putSecret(value)
  await look()
  await watching('secrets lab')
}

describe('the source of a property', () => {
  it('adds few listeners to each signal for many Configurations and Secrets', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `many-${index}`)
    const warnings = await listenerWarnings(async () => {
      for (const name of names) {
        putSecret('secret', name)
        configurations.put(configurationOf(name, { secretKeyRef: { name, key: 'k' } }))
      }
      await Promise.all(
        names.map((name) => look({ kind: 'Secret', key: objectKey('default', name) })),
      )
      await eventually(() => expect(watched()).toHaveLength(30))
      await end()
    })
    expect(warnings).toEqual([])
    await watching()
  })

  it('A7 cannot be read until the server answers, also that there is no object', async () => {
    refuse(500)
    await expect(look()).rejects.toThrow(PropertyUnreadableError)
    api.refusal = () => undefined
    await inSteps(clock, async () => expect(told).toEqual([objectKey('default', 'cam')]), 1000)
    expect(await look()).toBeUndefined()
    await watching('secrets lab')
    refuse(500)
    api.cut()
    await eventually(() => expect(look()).rejects.toThrow(PropertyUnreadableError))
    api.refusal = () => undefined
    await inSteps(clock, async () => expect(await look()).toBeUndefined(), 1000)
  })

  it('answers a Configuration although another one comes before the answer', async () => {
    putSecret('secret')
    let answer: () => void = () => expect.fail('nothing was asked')
    api.before = () =>
      new Promise<void>((resolve) => {
        answer = resolve
      })
    const looking = look()
    await eventually(() => expect(api.requests).toHaveLength(1))
    configurations.put(configurationOf('other', fromSecret))
    await new Promise(setImmediate)
    api.before = () => undefined
    answer()
    expect((await looking)?.data?.get('k')).toEqual(Buffer.from('secret'))
  })

  it('A7 calls the listeners of its Configurations after each change of the data', async () => {
    const elsewhere = { secretKeyRef: { name: 'elsewhere', key: 'k' } }
    configurations.put(configurationOf('other', elsewhere))
    configurations.put(configurationOf('both', elsewhere, fromSecret))
    await following('old')
    expect(told).toEqual([])
    const data = { k: base64('old') }
    api.put(`${SECRETS}/lab`, { metadata: { labels: { a: 'b' } }, data })
    putSecret('new')
    await showing('new')
    expect(told.splice(0)).toEqual(['default/cam', 'default/both'])
    api.remove(`${SECRETS}/lab`)
    await eventually(async () => expect(await look()).toBeUndefined())
    expect(told).toEqual(['default/cam', 'default/both'])
  })

  it.each([
    // A text that is valid base64 is a text all the same.
    [mapReference, CONFIG_MAPS, { data: { text: 'grün\n', word: WORD }, binaryData: { raw: RAW } }],
    [reference, SECRETS, { data: { raw: RAW, text: base64('grün\n'), word: base64(WORD) } }],
  ])('is text in data of a ConfigMap, and base64 elsewhere: %o', async (which, path, object) => {
    configurations.put(configurationOf('cam', fromMap, fromSecret))
    api.put(`${path}/lab`, {})
    expect((await look(which))?.data).toEqual(new Map())
    api.put(`${path}/lab`, object)
    const values = { raw: Buffer.of(0, 0xff, 0x80), text: Buffer.from('grün\n') }
    const expected = new Map(Object.entries({ ...values, word: Buffer.from(WORD) }))
    await eventually(async () => expect((await look(which))?.data).toEqual(expected))
  })

  it('A7 is watched only while a Configuration refers to it', async () => {
    configurations.put(configurationOf('other', fromSecret))
    await following('old')
    configurations.remove(objectKey('default', 'cam'))
    putSecret('new')
    await showing('new')
    // The same name of another kind is another object.
    configurations.put(configurationOf('other', fromMap))
    await watching()
    await look(mapReference)
    await watching('configmaps lab')
    configurations.remove(objectKey('default', 'other'))
    await watching()
    // What was known of it then says nothing of now.
    api.remove(`${SECRETS}/lab`)
    const again = configurationOf('again', fromSecret)
    configurations.put(again)
    expect(await look()).toBeUndefined()
    putSecret('again')
    await eventually(() => expect(told).toContain(keyOf(again)))
    await showing('again')
  })

  describe('of another namespace', () => {
    const theirs = '/api/v1/namespaces/factory/secrets/cameras'
    const from = { secretKeyRef: { name: 'cameras', namespace: 'factory', key: 'k' } }
    const configuration = configurationOf('cam', from)
    const value = async (of = configuration) => (await resolve(of)).text('p0')
    const refused = () => expect(value()).rejects.toThrow(PropertyRefusedError)
    const keepsNothing = async () => {
      await refused()
      const key = objectKey('factory', 'cameras')
      expect(await sources.look(configuration, { kind: 'Secret', key })).toBeUndefined()
    }
    const put = (annotations: object = {}) =>
      api.put(theirs, { metadata: { annotations }, data: { k: base64('s3cret') } })
    const consent = (namespaces: string) => put({ 'akri.sh/readable-from': namespaces })
    const heard = (times: number) => eventually(() => expect(told).toHaveLength(times))

    beforeEach(() => configurations.put(configuration))

    it('counts while its annotation consents, and listeners hear changes of that', async () => {
      put()
      await keepsNothing()
      await watching('secrets cameras')
      put({ other: 'annotation' })
      consent('line, default')
      await heard(1)
      expect(await value()).toBe('s3cret')
      consent('line')
      await heard(2)
      await keepsNothing()
      consent('*')
      await heard(3)
      expect(await value()).toBe('s3cret')
      api.remove(theirs)
      await heard(4)
      await keepsNothing()
    })

    it('is refused also while it is watched for a Configuration of its namespace', async () => {
      put()
      await refused()
      const own = configurationOf('home', { secretKeyRef: { name: 'cameras', key: 'k' } })
      const home = placed(own, { namespace: 'factory' })
      configurations.put(home)
      expect(await value(home)).toBe('s3cret')
      await watching('secrets cameras')
      await refused()
      configurations.remove(keyOf(home))
      await keepsNothing()
      await watching('secrets cameras')
      consent('default')
      await heard(1)
      expect(await value()).toBe('s3cret')
    })
  })

  it('is gone after the server forbids the read, and comes back with the right', async () => {
    const forbidden = async () => {
      const looked = look()
      await expect(looked).rejects.toThrow(PropertyForbiddenError)
      await expect(looked).rejects.toThrow(
        /^Secret default\/lab cannot be read: .*403.* Role akri-agent-read-secrets .* default$/,
      )
    }
    await following('secret')
    // An outage keeps the value.
    refuse(500)
    api.cut()
    await eventually(() => expect(api.watches.size).toBe(0))
    await clock.advance(60_000)
    await showing('secret')
    refuse(403)
    await inSteps(clock, forbidden, 1000)
    expect(told).toEqual(['default/cam'])
    // An outage after that is no reason to use the value again.
    refuse(500)
    await clock.advance(60_000)
    await forbidden()
    api.refusal = () => undefined
    const check = async () => expect((await look())?.data?.size).toBe(1)
    await inSteps(clock, check, 30_000)
    expect(told).toEqual(['default/cam', 'default/cam'])
  })

  it('calls listeners once in 5 s if it changes all the time, and after the last', async () => {
    await following('0')
    for (let value = 1; value <= 50; value++) putSecret(String(value))
    await showing('50')
    expect(told).toHaveLength(10)
    await clock.advance(5000)
    expect(told).toHaveLength(11)
    await clock.advance(60_000)
    expect(told).toHaveLength(11)
  })

  it('tells many Configurations within a budget, and each of the last change', async () => {
    for (let index = 0; index < 400; index++)
      configurations.put(configurationOf(`many-${index}`, fromSecret))
    await following()
    putSecret('one')
    await eventually(() => expect(told).toHaveLength(200))
    putSecret('two')
    await showing('two')
    await clock.advance(1000)
    expect(told).toHaveLength(220)
    await clock.advance(60_000)
    expect(new Set(told.slice(200))).toEqual(new Set(configurations.list().map(keyOf)))
  })

  it('has at most 256 KiB of data', async () => {
    const put = (size: number) =>
      api.put(`${SECRETS}/lab`, { data: { k: Buffer.alloc(size, 1).toString('base64') } })
    put(256 * 1024)
    const cam = configurations.list()[0] ?? expect.fail()
    expect((await resolve(cam)).text('p0')?.length).toBe(256 * 1024)
    await watching('secrets lab')
    put(256 * 1024 + 1)
    const tooLarge = 'has more than 262144 bytes of data'
    await eventually(() => expect(resolve(cam)).rejects.toThrow(tooLarge))
    expect(await look()).not.toHaveProperty('data')
  })

  it('is refused beyond the bounds until another Configuration makes room', async () => {
    await end()
    start({ perAgent: 2, perNamespace: 1 })
    const of = (namespace: string, name: string, secret: string) => {
      const secretKeyRef = { name: secret, key: 'k', optional: true }
      const metadata = { namespace, creationTimestamp: name }
      const made = placed(configurationOf(name, { secretKeyRef }), metadata)
      configurations.put(made)
      return made
    }
    const second = of('default', '2', 'other')
    const same = of('default', '3', 'lab')
    const other = of('hall', '4', 'lab')
    const last = of('line', '5', 'lab')
    const [first = expect.fail()] = configurations.list()
    for (const each of [first, same, other]) await expect(resolve(each)).resolves.toBeDefined()
    await watching('secrets lab', 'secrets lab')
    const beyond = (users: string) => `with this one, ${users} Secrets and ConfigMaps, which is`
    const refused = (which: Configuration, users: string) =>
      expect(resolve(which)).rejects.toThrow(beyond(users))
    const ofDefault = 'the Configurations of namespace default would use more than 1'
    await refused(second, ofDefault)
    await refused(last, 'all Configurations of this agent would use more than 2')
    configurations.remove(keyOf(other))
    await watching('secrets lab')
    await expect(resolve(last)).resolves.toBeDefined()
    await refused(second, ofDefault)
    // An edit takes nothing from others.
    const more = { secretKeyRef: { name: 'more', key: 'k', optional: true } }
    const edited = placed(configurationOf('with', more), first.metadata)
    configurations.put(edited)
    await refused(edited, ofDefault)
    await expect(resolve(same)).resolves.toBeDefined()
    // An edit leaves room too.
    for (const { metadata } of [first, same])
      configurations.put(placed(configurationOf('without'), metadata))
    await expect(resolve(second)).resolves.toBeDefined()
  })
})
