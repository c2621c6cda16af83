import type { Instance } from '@akrijs/api'
import { systemClock } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { configuration, nullDevice } from './support/manifests.js'
import { isAlive } from './support/processes.js'

/** The number of kills: each of the five kinds once. AKRI_CHAOS_ROUNDS overrides it. */
const ROUNDS = Number(process.env.AKRI_CHAOS_ROUNDS ?? 5)

const akri = AkriProgram.ofEachTest()

it(`R84 R90 A2 keeps claims and Instances whatever is killed (${ROUNDS} rounds)`, {
  timeout: 300_000 + ROUNDS * 10_000,
}, async () => {
  const file = await akri.write(
    'a.yaml',
    configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
  )
  const identity = ({ metadata, spec }: Instance) => ({
    uid: metadata.uid,
    name: metadata.name,
    ...spec,
    deviceUsage: Object.keys(spec.deviceUsage),
  })
  const running = () =>
    eventually(async () => {
      const pids = (await akri.brokers()).filter(isAlive)
      expect(pids).toHaveLength(1)
      const now = await akri.instances()
      expect(
        now.map(
          ({ spec }) => Object.values(spec.deviceUsage).filter((usage) => usage !== '').length,
        ),
      ).toEqual([1])
      return { pids, instances: now.map(identity) }
    })
  // Handlers run in their own processes, so that the test can kill each alone.
  const begin = () => akri.start('-f', file, '--isolated', '--handler', '@akrijs/handler-udev')
  begin()
  const first = await running()
  let seed = 12345
  const next = (limit: number) => {
    // A linear congruential generator gives the same moments in every run.
    seed = (seed * 1103515245 + 12345) % 2 ** 31
    return seed % limit
  }
  const killBroker = (pids: readonly number[]) => {
    for (const pid of pids.filter(isAlive)) process.kill(-pid, 'SIGKILL')
  }
  const killHandler = () => {
    for (const pid of akri.handlers) process.kill(pid, 'SIGKILL')
  }
  const killed = { agent: 0, handler: 0, broker: 0 }
  for (let round = 0; round < ROUNDS; round++) {
    const before = await akri.brokers()
    const victims =
      [['agent'], ['handler'], ['broker'], ['broker', 'handler', 'agent'], ['agent', 'agent']][
        round % 5
      ] ?? []
    for (const victim of victims) {
      if (victim === 'agent') {
        await akri.stop('SIGKILL')
        killed.agent++
        begin()
      } else if (victim === 'handler') {
        killed.handler += akri.handlers.length
        killHandler()
      } else {
        killed.broker++
        killBroker(await akri.brokers())
      }
      // The next kill happens during the recovery from this one.
      await systemClock.sleep(next(600))
    }
    const now = await running()
    expect(now.instances).toEqual(first.instances)
    for (const pid of before) if (!now.pids.includes(pid)) expect(isAlive(pid)).toBe(false)
  }
  expect(Math.min(killed.agent, killed.handler, killed.broker)).toBeGreaterThan(0)
  expect(akri.output).not.toMatch(/instance (left|created).*instance (left|created)/s)
})
