import { type Condition, type Configuration, parseConfigurationStatus } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import { useController } from './support/controlled-world.js'
import { History } from './support/history.js'
import type { HostController } from './support/host-controller.js'
import { alivePodsIn, type Made, podSpec, podsIn, ready } from './support/made.js'
import { missing, unless } from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Roll-outs of broker Pods over all Instances of a Configuration.

const DEVICES = Array.from({ length: 6 }, (_, index) => `foo${index}`)
/** How long a roll-out may take on a slow machine. */
const SLOW_MS = 240_000

describe.skipIf(missing() !== undefined)(`roll-outs on a real cluster${unless}`, () => {
  let world: World
  let controller: HostController

  useController((opened) => {
    world = opened.world
    controller = opened.controller
  })

  const apply = (version: string, more: object = {}, pod: object = {}) => {
    const brokerPodSpec = { ...podSpec(`echo ${version}; exec sleep 100000`), ...pod }
    return world.apply(echoYaml('cam', DEVICES, 1, { brokerSpec: { brokerPodSpec, ...more } }))
  }
  const bad = (image: string) => {
    const { containers } = podSpec()
    return { containers: [{ ...containers[0], image, imagePullPolicy: 'Never' }] }
  }

  const versionOf = ({ spec: { containers } }: Made) =>
    /^echo (\w+);/.exec(containers[0].command[2])?.[1] ?? 'bad'
  const versions = async () => (await alivePodsIn(world)).map(versionOf).sort()
  const all = (version: string) => DEVICES.map(() => version)

  async function status() {
    const found = await world.get<Configuration>('Configuration', 'cam')
    return parseConfigurationStatus(found)?.status
  }
  async function brokersReady(): Promise<Condition> {
    const found = (await status())?.conditions.find(({ type }) => type === 'BrokersReady')
    return found ?? expect.fail('there is no condition BrokersReady')
  }

  /** Waits until all brokers are ready, with this version. */
  const untilAll = (version: string) =>
    eventually(async () => {
      expect(await versions()).toEqual(all(version))
      expect(ready(await podsIn(world))).toHaveLength(6)
      expect((await status())?.brokers).toEqual({ desired: 6, updated: 6, ready: 6 })
      expect(await brokersReady()).toMatchObject({ status: 'True', reason: 'Ready' })
    }, SLOW_MS)

  /** The fewest brokers that were ready at any moment. The history starts with each of them. */
  const fewest = (history: History<Made>) =>
    Math.min(...history.moments.slice(DEVICES.length - 1).map((moment) => ready(moment).length))

  it('a change makes at most maxUnavailable brokers unavailable', async () => {
    const limit = { updateStrategy: { rollingUpdate: { maxUnavailable: '34%' } } }
    await apply('v1', limit)
    await untilAll('v1')
    const history = await History.begin<Made>(world, 'Pod')
    const statuses = await History.begin<Configuration>(world, 'Configuration')
    try {
      await apply('v2', limit)
      await untilAll('v2')
    } finally {
      await history.end()
      await statuses.end()
    }
    const messages = statuses.states
      .flatMap((found) => parseConfigurationStatus(found)?.status?.conditions ?? [])
      .filter(({ type, status: is }) => type === 'BrokersReady' && is === 'False')
      .map(({ message }) => message)
    expect(messages).toContainEqual(expect.stringMatching(/ready, [0-5] of 6 are updated/))
    // 34 % of 6, rounded down.
    expect(fewest(history)).toBe(4)
  }, 600_000)

  it('a bad image stops after the first broker, and a correction goes on', async () => {
    await apply('v1')
    await untilAll('v1')
    const before = (await podsIn(world)).map(({ metadata }) => metadata.uid)
    const history = await History.begin<Made>(world, 'Pod')
    const isStuck = () =>
      eventually(async () => {
        expect(await versions()).toEqual(['bad', 'v1', 'v1', 'v1', 'v1', 'v1'])
        expect(await brokersReady()).toMatchObject({
          status: 'False',
          reason: 'RolloutStuck',
          message: expect.stringContaining('ErrImageNeverPull'),
        })
        expect((await status())?.brokers).toEqual({ desired: 6, updated: 1, ready: 5 })
      }, SLOW_MS)
    try {
      await apply('', {}, bad('localhost/none:1'))
      await isStuck()
      // Another mistake, and another leader: still the same broker.
      await controller.stop()
      await apply('', {}, bad('localhost/none:2'))
      await controller.lead()
      await eventually(async () => {
        const found = (await alivePodsIn(world)).find((pod) => versionOf(pod) === 'bad')
        expect(JSON.stringify(found?.spec)).toContain('localhost/none:2')
      }, SLOW_MS)
      await isStuck()
      const kept = (await podsIn(world)).map(({ metadata }) => metadata.uid)
      expect(kept.filter((uid) => before.includes(uid))).toHaveLength(5)
      await apply('v2')
      await untilAll('v2')
    } finally {
      await history.end()
    }
    expect(fewest(history)).toBe(5)
  }, 900_000)
})
