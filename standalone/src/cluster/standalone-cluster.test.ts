import { readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { MissingPropertyError, PropertyRefusedError } from '@akrijs/agent'
import type { ConfigurationManifest, KeyedData, SlotName } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube'
import { silentLogger, systemClock, temporaryOf } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { clusterContract } from '../../../agent/src/cluster/cluster.contract.js'
import type { ClusterUnderTest } from '../../../agent/src/cluster/tested-cluster.contract.js'
import { draftOf, manifest } from '../../../agent/src/testing/objects.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { StateFileError } from '../errors.js'
import { type ClusterState, StateFile } from '../state/state-file.js'
import { StandaloneCluster } from './standalone-cluster.js'

const NODE = 'node-a' as NodeName
const warnings: string[] = []
const log = {
  ...silentLogger,
  warn: (_fields: object, message: string) => void warnings.push(message),
}

let directory: string
let file: string

beforeEach(async () => {
  directory = await temporaryDirectory()
  file = path.join(directory, 'cluster.json')
  warnings.length = 0
})

const open = (clock = systemClock) =>
  StandaloneCluster.open({ file: new StateFile(file), clock, log })
const complete = (
  configurations: readonly ConfigurationManifest[],
  data: readonly KeyedData[] = [],
) => ({
  configurations,
  data,
  complete: true,
})

clusterContract('standalone', async (): Promise<ClusterUnderTest> => {
  const ownDirectory = await temporaryDirectory()
  const ownFile = new StateFile(path.join(ownDirectory, 'cluster.json'))
  const cluster = await StandaloneCluster.open({ file: ownFile, clock: systemClock, log })
  const wanted = new Map<string, ConfigurationManifest>()
  const apply = () => cluster.apply(complete([...wanted.values()]))
  return {
    cluster,
    reportedStatus: async (key) => cluster.configurations.get(key)?.status?.nodes[NODE],
    applyConfiguration: (manifest) => {
      wanted.set(objectKey(manifest.namespace, manifest.name), manifest)
      return apply()
    },
    removeConfiguration: (manifest) => {
      wanted.delete(objectKey(manifest.namespace, manifest.name))
      return apply()
    },
    dispose: async () => {
      await cluster.close()
    },
  }
})

async function withInstance(cluster: StandaloneCluster, wanted = manifest()) {
  await cluster.apply(complete([wanted]))
  const owner = cluster.configurations.get(objectKey(wanted.namespace, wanted.name))
  expect(owner).toBeDefined()
  if (owner === undefined) throw new TypeError('no Configuration')
  const draft = draftOf(owner, 2, [NODE], '8120fe')
  await cluster.createInstance(draft)
  return {
    wanted,
    key: objectKey(draft.namespace, draft.name),
    slot: `${draft.name}-0` as SlotName,
  }
}

describe('the state of the standalone cluster', () => {
  it('has a claim in the file before it answers the caller', async () => {
    const cluster = await open()
    const { key, slot } = await withInstance(cluster)
    await cluster.claimSlot(key, slot, NODE)
    expect(JSON.parse(await readFile(file, 'utf8')).state.instances[0].spec.deviceUsage[slot]).toBe(
      NODE,
    )
  })

  it('counts claimed slots in the status without a report', async () => {
    const cluster = await open()
    const { wanted, key, slot } = await withInstance(cluster)
    const configuration = objectKey(wanted.namespace, wanted.name)
    const slots = () => cluster.configurations.get(configuration)?.status?.slots
    await cluster.reportStatus(configuration, NODE, {
      observedGeneration: 1,
      devices: 1,
      conditions: [],
    })
    expect(slots()).toEqual({ total: 2, claimed: 0, free: 2 })
    await cluster.claimSlot(key, slot, NODE)
    expect(slots()).toEqual({ total: 2, claimed: 1, free: 1 })
    await cluster.releaseSlot(key, slot, NODE)
    expect(slots()).toEqual({ total: 2, claimed: 0, free: 2 })
  })

  it('refuses a claim that cannot be written, and forgets the claim', async () => {
    const cluster = await open()
    const { key, slot } = await withInstance(cluster)
    const before = cluster.instances.get(key)
    const content = await readFile(file, 'utf8')
    await symlink('/dev/full', temporaryOf(file))
    const refused = cluster.claimSlot(key, slot, NODE)
    await expect(refused).rejects.toThrow(StateFileError)
    await expect(refused).rejects.toThrow(new RegExp(`^${file} cannot be written: .*ENOSPC`))
    expect(cluster.instances.get(key)).toBe(before)
    expect(await readFile(file, 'utf8')).toBe(content)
    expect(await cluster.claimSlot(key, slot, NODE)).toEqual({ outcome: 'claimed' })
  })

  it.each([
    ['half a file', '{"version":1,"state":{"inst'],
    ['an empty file', ''],
    ['a newer version', '{"version":2,"state":{}}'],
    ['a list', '[]'],
    [
      'a negative capacity',
      JSON.stringify({
        version: 1,
        state: { configurations: {}, instances: [{}], resourceVersion: 1 },
      }),
    ],
  ])('moves %s aside, warns, and starts with an empty state', async (_title, content) => {
    await writeFile(file, content)
    const cluster = await open()
    expect(cluster.instances.list()).toEqual([])
    expect(warnings).toEqual(['state file invalid, state discarded'])
    const aside = (await readdir(directory)).filter((name) =>
      name.startsWith('cluster.json.corrupt'),
    )
    expect(
      await Promise.all(aside.map((name) => readFile(path.join(directory, name), 'utf8'))),
    ).toEqual([content])
  })

  it('does not write the file if nothing changes', async () => {
    const cluster = await open()
    const { wanted, key } = await withInstance(cluster)
    await rm(file)
    await cluster.apply(complete([structuredClone(wanted)]))
    await cluster.joinInstance(key, NODE)
    await cluster.updateInstance(key, { capacity: 2, brokerProperties: {} })
    expect(await readdir(directory)).toEqual([])
  })

  it('raises the generation of a Configuration that was edited while no agent ran', async () => {
    const { wanted } = await withInstance(await open())
    const same = await open()
    await same.apply(complete([wanted]))
    expect(same.configurations.list()[0]?.metadata.generation).toBe(1)
    const edited = await open()
    await edited.apply(complete([{ ...wanted, spec: { ...wanted.spec, capacity: 9 } }]))
    expect(edited.configurations.list()[0]?.metadata.generation).toBe(2)
  })

  it('writes all changes that arrive during a write at once', async () => {
    let writes = 0
    class CountedFile extends StateFile {
      override async save(state: ClusterState): Promise<void> {
        writes++
        await super.save(state)
      }
    }
    const cluster = await StandaloneCluster.open({
      file: new CountedFile(file),
      clock: systemClock,
      log,
    })
    const wanted = manifest()
    await cluster.apply(complete([wanted]))
    const owner = cluster.configurations.list()[0] ?? expect.fail()
    writes = 0
    const digests = Array.from({ length: 1000 }, (_, index) => String(index).padStart(6, '0'))
    await Promise.all(
      digests.map((digest) => cluster.createInstance(draftOf(owner, 2, [NODE], digest))),
    )
    expect(writes).toBeLessThanOrEqual(2)
    expect((await open()).instances.list()).toHaveLength(1000)
  })

  it('removes other nodes and their claims, and deletes Instances that only they saw', async () => {
    const cluster = await open()
    const { key, slot } = await withInstance(cluster)
    const owner = cluster.configurations.list()[0] ?? expect.fail()
    const other = 'node-b' as NodeName
    const local = draftOf(owner, 1, [NODE], 'a19705')
    await cluster.createInstance(local)
    await cluster.claimSlot(
      objectKey(local.namespace, local.name),
      `${local.name}-0` as SlotName,
      NODE,
    )
    await cluster.joinInstance(key, other)
    await cluster.claimSlot(key, slot, `C:3:${NODE}`)
    const ownDirectory = slot.replace(/0$/, '1') as SlotName
    await cluster.claimSlot(key, ownDirectory, other)
    expect(await cluster.keepOnlyNode(other)).toEqual([NODE])
    expect(cluster.instances.list().map(({ spec }) => [spec.nodes, spec.deviceUsage])).toEqual([
      [[other], { [slot]: '', [ownDirectory]: other }],
    ])
    expect((await open()).instances.list()).toEqual(cluster.instances.list())
    await rm(file)
    expect(await cluster.keepOnlyNode(other)).toEqual([])
    expect(await readdir(directory)).toEqual([])
  })

  it('deletes the Instances of a Configuration that was removed while no agent ran', async () => {
    await withInstance(await open())
    const after = await open()
    await after.apply(complete([]))
    expect(after.instances.list()).toEqual([])
    expect((await open()).instances.list()).toEqual([])
  })

  it('deletes an Instance that names a Configuration of another namespace', async () => {
    const { wanted, key } = await withInstance(await open())
    const content = JSON.parse(await readFile(file, 'utf8')) as { state: ClusterState }
    const [own] = content.state.instances
    const forged = { ...own, metadata: { ...own?.metadata, namespace: 'other', uid: 'x' } }
    const state = { ...content.state, instances: [own, forged] }
    await writeFile(file, JSON.stringify({ ...content, state }))
    const after = await open()
    expect(after.instances.list()).toHaveLength(2)
    await after.apply(complete([wanted]))
    expect(after.instances.list().map(keyOf)).toEqual([key])
  })

  it('A2 deletes nothing on a restart while a file is unreadable', async () => {
    const before = await open()
    const { wanted, key } = await withInstance(before)
    const after = await open()
    await after.apply({ configurations: [manifest()], data: [], complete: false })
    expect(after.instances.get(key)).toEqual(before.instances.get(key))
    await after.apply(complete([wanted]))
    expect(after.instances.get(key)).toEqual(before.instances.get(key))
    expect(after.configurations.list()[0]?.metadata.uid).toBe(
      before.configurations.list()[0]?.metadata.uid,
    )
  })

  it('removes no Configuration and no Secret while a file is unreadable', async () => {
    const cluster = await open()
    const wanted = manifest(tokenFrom({ name: 'lab', key: 'token' }))
    await cluster.apply(complete([wanted], [secret('default', 's3')]))
    await cluster.apply({ configurations: [], data: [], complete: false })
    const kept = cluster.configurations.get(objectKey('default', wanted.name))
    expect(kept).toBeDefined()
    if (kept) expect((await cluster.resolveProperties(kept)).text('token')).toBe('s3')
  })

  it('keeps a property named __proto__ as a plain property', async () => {
    const cluster = await open()
    const { wanted, key } = await withInstance(cluster)
    await cluster.updateInstance(key, {
      capacity: 1,
      brokerProperties: JSON.parse('{"__proto__":"x","constructor":"y"}'),
    })
    expect(Object.entries(cluster.instances.get(key)?.spec.brokerProperties ?? {})).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
    const after = await open()
    await after.apply(complete([wanted]))
    expect(after.instances.list()).toHaveLength(1)
  })
})

describe('properties of a Configuration', () => {
  it('refuses a Secret of another namespace without consent', async () => {
    const cluster = await open()
    const wanted = manifest(tokenFrom({ name: 'lab', key: 'token', namespace: 'site' }))
    const changed = vi.fn()
    cluster.onPropertiesChanged(changed, new AbortController().signal)
    const put = (consent: object) =>
      cluster.apply(complete([wanted], [{ ...secret('site', 's'), ...consent }]))
    await put({})
    await expect(tokens(cluster)).rejects.toThrow(PropertyRefusedError)
    await put({ readableFrom: 'hall, default' })
    expect(await tokens(cluster)).toEqual(['s'])
    await put({ readableFrom: 'hall' })
    await expect(tokens(cluster)).rejects.toThrow(PropertyRefusedError)
    expect(changed).toHaveBeenCalledTimes(3)
  })

  it('A7 names the missing Secret, key and namespace', async () => {
    const cluster = await open()
    await cluster.apply(complete([manifest(tokenFrom({ name: 'lab', key: 'token' }))]))
    const resolve = async () =>
      cluster.resolveProperties(cluster.configurations.list()[0] ?? expect.fail())
    await expect(resolve()).rejects.toThrow(MissingPropertyError)
    await expect(resolve()).rejects.toMatchObject({
      code: 'AKRI_ERR_MISSING_PROPERTY',
      kind: 'transient',
    })
    await expect(resolve()).rejects.toThrow('there is no Secret default/lab')
    await cluster.apply(
      complete([manifest(tokenFrom({ name: 'lab', key: 'toKen' }))], [secret('default', 's')]),
    )
    await expect(resolve()).rejects.toThrow('Secret default/lab has no key toKen')
  })

  it('leaves out missing optional properties, and keeps properties without a value', async () => {
    const cluster = await open()
    const discoveryProperties = [
      { name: 'gone', valueFrom: { configMapKeyRef: { name: 'x', key: 'y', optional: true } } },
      { name: 'bare' },
      { name: 'empty', value: '' },
    ]
    await cluster.apply(
      complete([
        manifest({ discoveryHandler: { name: 'h', discoveryDetails: '', discoveryProperties } }),
      ]),
    )
    const properties = await cluster.resolveProperties(
      cluster.configurations.list()[0] ?? expect.fail(),
    )
    expect([...properties.entries()]).toEqual([
      ['bare', undefined],
      ['empty', Buffer.alloc(0)],
    ])
  })

  it('A7 reports a changed Secret to the Configurations that refer to it only', async () => {
    const cluster = await open()
    const user = manifest(tokenFrom({ name: 'lab', key: 'token' }))
    const configurations = [
      user,
      manifest(),
      manifest(tokenFrom({ name: 'lab', key: 'token', namespace: 'site' })),
    ]
    await cluster.apply(complete(configurations, [secret('default', 'a')]))
    const changed = vi.fn()
    cluster.onPropertiesChanged(changed, new AbortController().signal)
    await cluster.apply(complete(configurations, [secret('default', 'a')]))
    expect(changed).not.toHaveBeenCalled()
    await cluster.apply(complete(configurations, [secret('default', 'b')]))
    expect(changed.mock.calls).toEqual([[objectKey('default', user.name)]])
    await cluster.apply(complete(configurations, []))
    expect(changed).toHaveBeenCalledTimes(2)
  })
})

describe('events', () => {
  it('counts repeated Events, and keeps a bounded number', async () => {
    const clock = new ManualClock(1000)
    const cluster = await open(clock)
    const { wanted } = await withInstance(cluster)
    const key = keyOf({ metadata: wanted })
    const event = (message: string) =>
      cluster.recordEvent({
        regarding: { kind: 'Configuration', key },
        type: 'Warning',
        reason: 'NoHandler',
        message,
      })
    event('one')
    await clock.advance(500)
    event('one')
    expect(cluster.events.list()).toMatchObject([
      {
        message: 'one',
        count: 2,
        firstTimestamp: '1970-01-01T00:00:01.000Z',
        lastTimestamp: '1970-01-01T00:00:01.500Z',
      },
    ])
    const changed: string[] = []
    cluster.events.onChange(({ kind }) => changed.push(kind), new AbortController().signal)
    for (let index = 0; index < 2000; index++) event(String(index))
    expect(cluster.events.list().length).toBeLessThanOrEqual(500)
    // Each Event that comes, and each that makes room.
    expect(changed).toHaveLength(2000 + 1501)
    expect(cluster.events.list().at(-1)?.message).toBe('1999')
  })
})

function tokenFrom(secretKeyRef: {
  name: string
  key: string
  namespace?: string
}): Partial<ConfigurationManifest['spec']> {
  const discoveryProperties = [{ name: 'token', valueFrom: { secretKeyRef } }]
  return { discoveryHandler: { name: 'h', discoveryDetails: '', discoveryProperties } }
}

function secret(namespace: string, token: string): KeyedData {
  return { kind: 'Secret', name: 'lab', namespace, data: new Map([['token', Buffer.from(token)]]) }
}

const tokens = (cluster: StandaloneCluster) =>
  Promise.all(
    cluster.configurations
      .list()
      .map(async (object) => (await cluster.resolveProperties(object)).text('token')),
  )
