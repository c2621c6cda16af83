import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Instance, SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually, passing } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { noopObserver } from '../report/observer.js'
import { AllocationLedger } from '../slots/allocation-ledger.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { draftOf, manifest, NODE, OTHER } from '../testing/objects.js'
import { BrokerInfo } from './broker-info.js'
import { Workload } from './workload.js'
import { WorkloadDirectories } from './workload-directories.js'

let clock: ManualClock
let directory: string
let cluster: MemoryCluster
let brokerInfo: BrokerInfo
let instance: Instance
let ledger: AllocationLedger
let podsToEnd: Record<string, object>
let uidOf: (pod: string) => string

beforeEach(async () => {
  clock = new ManualClock()
  directory = await temporaryDirectory()
  cluster = new MemoryCluster()
  const wanted = manifest()
  await cluster.apply(wanted)
  const owner =
    cluster.configurations.get(objectKey(wanted.namespace, wanted.name)) ??
    expect.fail('no Configuration')
  const draft = draftOf(owner, 4, [NODE, OTHER], '8120fe')
  await cluster.createInstance(draft)
  instance =
    cluster.instances.get(objectKey(draft.namespace, draft.name)) ?? expect.fail('no Instance')
  podsToEnd = {}
  const reportPodsToEnd = (pods: ReadonlyMap<string, object>) => {
    podsToEnd = Object.fromEntries(pods)
  }
  Object.assign(cluster, { reportPodsToEnd })
  uidOf = (pod) => `uid of ${pod}`
  ledger = new AllocationLedger({ node: NODE, pods: undefined })
  brokerInfo = start()
  brokerInfo.start()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await brokerInfo.close()
  execFileSync('rm', ['-rf', directory])
})

const root = () => path.join(directory, 'broker-info')
const key = () => objectKey(instance.metadata.namespace, instance.metadata.name)
const slot = (index: number) => `${instance.metadata.name}-${index}` as SlotName
/** The allocation of the first slot. */
const held = () => ({
  slot: slot(0),
  resourceName: `akri.sh/${instance.metadata.name}`,
  id: slot(0),
})
const now = () => cluster.instances.get(key())
const info = () => now()?.status?.brokerInfo ?? {}

function start(): BrokerInfo {
  return new BrokerInfo({
    cluster,
    node: NODE,
    kubelet: { pods: { uidOf: (pod) => uidOf(pod) } },
    ledger,
    clock,
    log: silentLogger,
    observer: noopObserver,
    directory: root(),
  })
}

/** Waits for files and their events while the time of the agent passes. */
const soon = (look: () => unknown, stepMs = 1000) => passing(clock, look, stepMs)

/** As an Allocate does it. */
async function allocate(index: number): Promise<string> {
  await cluster.claimSlot(key(), slot(index), NODE)
  return (await brokerInfo.open(key(), slot(index))) ?? expect.fail('no directory')
}

/** Runs a shell in the directory until `work` has ended. */
async function whileRunning(script: string, directory: string, work: () => Promise<unknown>) {
  const shell = spawn('/bin/sh', ['-c', script], { cwd: directory, stdio: 'ignore' })
  const ended = once(shell, 'exit')
  await work().finally(() => shell.kill('SIGKILL'))
  await ended
}

const free = (index: number) => cluster.releaseSlot(key(), slot(index), NODE)
const events = () => cluster.events.filter(({ reason }) => reason === 'BrokerInfoRefused')

describe('reports of workloads', () => {
  it('R68 R69 R70 are in brokerInfo soon, after each change, until the slot is free', async () => {
    const [first, second] = [await allocate(0), await allocate(1)]
    expect(first).toBe(path.join(root(), `default_${slot(0)}`))
    // No other workload reaches it.
    for (const [directory, mode] of [
      [first, 0o777],
      [root(), 0o700],
    ] as const)
      expect((await stat(directory)).mode & 0o7777, directory).toBe(mode)
    await writeFile(path.join(first, 'firmware-version'), '1.0')
    await writeFile(path.join(second, 'b'), '2')
    await soon(() => expect(info()).toEqual({ 'firmware-version': '1.0', b: '2' }))
    await writeFile(path.join(first, 'firmware-version'), '1.1')
    await writeFile(path.join(first, '.state'), 'done')
    await rename(path.join(first, '.state'), path.join(first, 'state'))
    await soon(() => expect(info()).toMatchObject({ 'firmware-version': '1.1', state: 'done' }))
    await rm(path.join(first, 'state'))
    await soon(() => expect(info()).toEqual({ 'firmware-version': '1.1', b: '2' }))
    expect(now()?.metadata.generation).toBe(3)
    // However short the workload runs on.
    await writeFile(path.join(first, 'last'), '1')
    await brokerInfo.flush(key(), slot(0))
    expect(info()).toMatchObject({ last: '1' })
    await free(0)
    await soon(() => expect(info()).toEqual({ b: '2' }))
    await soon(async () => expect(await readdir(root())).toEqual([path.basename(second)]))
    await free(1)
    await soon(() => expect(info()).toEqual({}))
    await soon(async () => expect(await readdir(root())).toEqual([]))
  })

  it('R68 uses a new directory for the next workload, even if the last one writes', async () => {
    const directory = await allocate(0)
    await writeFile(path.join(directory, 'a'), 'of the first')
    await whileRunning('while true; do echo old >late; done', directory, async () => {
      await soon(() => expect(info()).toEqual({ a: 'of the first', late: expect.any(String) }))
      expect(await brokerInfo.open(key(), slot(0))).toBe(directory)
      expect(await readdir(directory)).toEqual([])
      await writeFile(path.join(directory, 'b'), 'of the second')
      await soon(() => expect(info()).toEqual({ b: 'of the second' }))
      expect(await readdir(directory)).toEqual(['b'])
    })
  })

  it('R68 R69 stays while a container has the slot whose claim the Instance lost', async () => {
    const directory = await allocate(0)
    ledger.record(held())
    await writeFile(path.join(directory, 'a'), '1')
    await soon(() => expect(info()).toEqual({ a: '1' }))
    await free(0)
    await writeFile(path.join(directory, 'a'), '2')
    // Longer than the agent keeps entries without a workload.
    await clock.advance(7000)
    expect(info()).toEqual({ a: '1' })
    await cluster.restoreSlot(key(), slot(0), NODE)
    await soon(() => expect(info()).toEqual({ a: '2' }))

    await cluster.leaveInstance(key(), OTHER)
    await cluster.leaveInstance(key(), NODE)
    await brokerInfo.close()
    brokerInfo = start()
    brokerInfo.start()
    expect(await readdir(directory)).toEqual(['a'])
    ledger.remove(held())
    await soon(async () => expect(await readdir(root())).toEqual([]))
  })

  it('R69 survives the agent: the next one finds what was written, freed or left', async () => {
    const [first, second, third] = [await allocate(0), await allocate(1), await allocate(2)]
    for (const directory of [first, second, third])
      await writeFile(path.join(directory, path.basename(directory).split('_')[1] ?? ''), '1')
    await soon(() => expect(Object.keys(info())).toHaveLength(3))
    await brokerInfo.close()
    await writeFile(path.join(first, slot(0)), '2')
    await free(1)
    await free(2)
    await cluster.claimSlot(key(), slot(2), OTHER)
    await mkdir(path.join(root(), 'default_none-123456-0'))
    brokerInfo = start()
    brokerInfo.start()
    // Of the third the other node says what is true.
    await soon(() => expect(info()).toEqual({ [slot(0)]: '2', [slot(2)]: '1' }))
    await soon(async () => expect(await readdir(root())).toEqual([path.basename(first)]))
    await writeFile(path.join(first, slot(0)), '3')
    await soon(() => expect(info()[slot(0)]).toBe('3'))
  })

  it('R69 of a lost node is removed by another node after a while', async () => {
    await cluster.claimSlot(key(), slot(3), OTHER)
    const files = new Map([['a', '1']])
    const workloads = new Map([[slot(3), { files, fresh: new Set<string>() }]])
    await cluster.reportBrokerInfo(key(), OTHER, { workloads, abandoned: new Set() })
    expect(info()).toEqual({ a: '1' })
    await cluster.releaseSlot(key(), slot(3), OTHER)
    await soon(() => expect(info()).toEqual({}))
  })

  it('R69 is in the Instance at once after a pause: the promise is a second', async () => {
    const directory = await allocate(0)
    await clock.advance(5000)
    const changed = vi.spyOn(Workload.prototype, 'expire')
    await writeFile(path.join(directory, 'a'), '1')
    await eventually(() => expect(changed).toHaveBeenCalled())
    await clock.advance(100)
    await eventually(() => expect(info()).toEqual({ a: '1' }))
  })

  it('R69 is read and written twice a second at most, however fast a workload writes', async () => {
    const directory = await allocate(0)
    const readTimes: number[] = []
    const writing = vi.spyOn(cluster, 'reportBrokerInfo')
    const { read } = Workload.prototype
    vi.spyOn(Workload.prototype, 'read').mockImplementation(function (this: Workload) {
      readTimes.push(clock.monotonicMs())
      return read.call(this)
    })
    // A writer that still runs can empty a file after it was read below.
    const script = 'i=0; while true; do i=$((i+1)); echo $i >a; echo $i >b; done'
    await whileRunning(script, directory, () =>
      soon(() => expect(writing.mock.calls.length).toBeGreaterThan(2), 150),
    )
    const gaps = readTimes.slice(1).map((time, index) => time - (readTimes[index] ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(450)
    expect(writing.mock.calls.length).toBeLessThanOrEqual(readTimes.length)
    const [a, b] = await Promise.all(
      ['a', 'b'].map((name) => readFile(path.join(directory, name), 'utf8')),
    )
    await soon(() => expect(info()).toEqual({ a, b }))
  })

  // The tests of a workload show the other ways.
  it('R69 end the Pod that fills the disk, and no other Pod of its name or slot', async () => {
    const POD = objectKey('default', 'p')
    const asked = () => ({ [POD]: { uid: `uid of ${POD}`, slot: slot(0) } })
    const directory = await allocate(0)
    await writeFile(path.join(directory, 'report'), '1')
    await soon(() => expect(info()).toEqual({ report: '1' }))
    ledger.record(held())
    const ends = /^the workload of slot \S+-0: .* reported until another Pod has the slot$/
    const refused = {
      regarding: { kind: 'Instance', key: key() },
      type: 'Warning',
      message: expect.stringMatching(ends),
    }
    await whileRunning('ulimit -f 100000; exec cat /dev/zero >large', directory, () =>
      soon(() => expect(events()).toContainEqual(expect.objectContaining(refused)), 450),
    )
    // The kubelet names the Pod later.
    expect(podsToEnd).toEqual({})
    ledger.record(held(), new Set([POD]))
    await soon(() => expect(podsToEnd).toEqual(asked()))
    expect(info()).toEqual({})
    uidOf = () => 'uid of the next Pod'
    await soon(() => expect(podsToEnd).toEqual({}))
    uidOf = (pod) => `uid of ${pod}`
    await soon(() => expect(podsToEnd).toEqual(asked()))
    ledger.remove(held())
    await free(0)
    await soon(() => expect(podsToEnd).toEqual({}))
    // The next workload is another, although its Pod has the same name.
    await writeFile(path.join(await allocate(0), 'report'), '2')
    ledger.record(held(), new Set([POD]))
    await soon(() => expect(info()).toEqual({ report: '2' }))
    expect(podsToEnd).toEqual({})
  })

  it('R68 starts a workload without a directory if the directory cannot be made', async () => {
    await brokerInfo.close()
    await rm(root(), { recursive: true, force: true })
    await writeFile(root(), 'in the way')
    brokerInfo = start()
    brokerInfo.start()
    await cluster.claimSlot(key(), slot(0), NODE)
    expect(await brokerInfo.open(key(), slot(0))).toBeUndefined()
    await rm(root())
    expect(await brokerInfo.open(key(), slot(0))).toBeDefined()
  })

  it('R68 tells the node while its directories have no room, which only writers see', async () => {
    const isFull = vi.spyOn(WorkloadDirectories.prototype, 'isFull')
    isFull.mockResolvedValue(true)
    const failed = vi.spyOn(noopObserver, 'failed')
    await clock.advance('1m')
    const text = `no room for reports of containers in ${root()}`
    await eventually(() => expect(failed).toHaveBeenCalledWith('DiskFull', text))
    isFull.mockRejectedValue(new Error('gone'))
    await clock.advance('1m')
    failed.mockClear()
    await clock.advance('2m')
    expect(failed).not.toHaveBeenCalled()
  })

  it.each(['../x', 'a/b', '..', '', 'x_y'])(
    'R68 makes no directory for a slot called %j',
    async (name) => {
      expect(await brokerInfo.open(key(), name as SlotName)).toBeUndefined()
    },
  )
})
