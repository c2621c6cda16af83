import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { objectKey } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { beforeAll, expect, it } from 'vitest'
import { bundle } from '../../test/support/bundle.js'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { StandaloneCluster } from './cluster/standalone-cluster.js'
import { StateFile } from './state/state-file.js'

const SLOTS = 4
let directory: string
let program: string

/** Claims and releases the slots of an Instance for ever, and prints each acknowledged result. */
const CLAIMER = `
import { StandaloneCluster } from './cluster/standalone-cluster.js'
import { StateFile } from './state/state-file.js'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { writeSync } from 'node:fs'
const [file, round] = process.argv.slice(2)
const state = new StateFile(file)
const cluster = await StandaloneCluster.open({ file: state, clock: systemClock, log: silentLogger })
const discoveryHandler = { name: 'h', discoveryDetails: '', discoveryProperties: [] }
const spec = { discoveryHandler, capacity: ${SLOTS}, brokerProperties: {} }
const lab = { name: 'lab', namespace: 'default', labels: {}, annotations: {}, spec }
await cluster.apply({ configurations: [lab], data: [], complete: true })
const [owner] = cluster.configurations.list()
await cluster.createInstance({
  name: 'lab-8120fe',
  namespace: 'default',
  annotations: {},
  owner,
  spec: {
    configurationName: 'lab',
    cdiName: 'akri.sh/lab=8120fe',
    capacity: ${SLOTS},
    brokerProperties: {},
    shared: true,
    nodes: ['n'],
    deviceUsage: {},
  },
})
writeSync(1, 'ready\\n')
for (let count = 0; ; count++) {
  const slot = 'lab-8120fe-' + (count % ${SLOTS})
  const holder = cluster.instances.get('default/lab-8120fe').spec.deviceUsage[slot]
  const usage = holder === '' ? 'n-' + round + '-' + count : ''
  // Printed before: a change can be in the file although the process died before its answer.
  writeSync(1, 'try ' + slot + ' ' + usage + '\\n')
  if (holder === '') await cluster.claimSlot('default/lab-8120fe', slot, usage)
  else await cluster.releaseSlot('default/lab-8120fe', slot, holder)
  writeSync(1, 'done ' + slot + ' ' + usage + '\\n')
}
`

beforeAll(async () => {
  directory = await temporaryDirectory()
  program = path.join(directory, 'claimer.mjs')
  const stdin = { contents: CLAIMER, resolveDir: import.meta.dirname }
  await bundle({ stdin, outfile: program })
})

it('keeps every acknowledged claim and release if the process is killed', async () => {
  const file = path.join(directory, 'cluster.json')
  let acknowledged = new Map<string, string>()
  for (let round = 0; round < 12; round++) {
    const child = spawn(process.execPath, [program, file, String(round)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const tried = new Map<string, string>()
    let lines = 0
    // The number of lines differs in each round, so that the kill hits any step of a write.
    const end = 5 + ((round * 37) % 90)
    for await (const line of createInterface({ input: child.stdout })) {
      const [word, slot = '', usage = ''] = line.split(' ')
      if (word === 'try') tried.set(slot, usage)
      if (word === 'done') {
        acknowledged.set(slot, usage)
        tried.delete(slot)
      }
      if (++lines === end) setTimeout(() => child.kill('SIGKILL'), round % 4)
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    expect(child.signalCode).toBe('SIGKILL')

    const cluster = await StandaloneCluster.open({
      file: new StateFile(file),
      clock: systemClock,
      log: silentLogger,
    })
    const usage = cluster.instances.get(objectKey('default', 'lab-8120fe'))?.spec.deviceUsage ?? {}
    expect(Object.keys(usage)).toHaveLength(SLOTS)
    for (const [slot, holder] of acknowledged) {
      if (tried.has(slot)) expect([holder, tried.get(slot)]).toContain(usage[slot])
      else expect(usage[slot]).toBe(holder)
    }
    acknowledged = new Map(Object.entries(usage))
  }
  expect((await readdir(directory)).filter((name) => name.includes('corrupt'))).toEqual([])
})
