import { type Condition, type Configuration, parseConfigurationStatus } from '@akrijs/api'
import { afterAll, beforeAll, expect } from 'vitest'
import { Account } from './account.js'
import { HostController } from './host-controller.js'
import { NodeAgents } from './node-agents.js'
import { setAvailable } from './nodes.js'
import { eventually, World } from './world.js'

/** What a suite works with. */
interface Opened {
  readonly world: World
  /** It leads. */
  readonly controller: HostController
  /** Another replica, which is not started. */
  replica(): HostController
}

/**
 * For the tests of a suite: a world with an agent on each node and a controller with the rights of
 * its manifests. A test finds what the test before it has left.
 */
export function useController(onOpen: (opened: Opened) => void): void {
  let world: World
  let agents: NodeAgents
  let account: Account | undefined
  const controllers: HostController[] = []

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    agents = await NodeAgents.start()
    account = await Account.create(world.client, 'controller', world.namespace)
    const env = { KUBECONFIG: account.kubeconfig }
    const made = (identity: string) => {
      const controller = new HostController(identity, world.namespace, env)
      controllers.push(controller)
      return controller
    }
    const controller = made('one')
    await controller.lead()
    onOpen({ world, controller, replica: () => made('two') })
  })

  afterAll(async () => {
    for (const controller of controllers) await controller.stop()
    await setAvailable(true)
    await agents?.dispose()
    await account?.dispose()
    await world?.close()
  })
}

/** The Pods of the Configuration in `akri_broker_pod_count`. */
export async function countedBrokers(controller: HostController, name: string): Promise<number> {
  const counts = (await controller.metrics()).matchAll(
    /^akri_broker_pod_count\{configuration="([^"]*)",node="[^"]*"\} ([0-9]+)$/gm,
  )
  return [...counts].reduce((sum, [, of, count]) => sum + (of === name ? Number(count) : 0), 0)
}

/** The summary of a Configuration. */
export async function summaryOf(world: World, name: string) {
  return parseConfigurationStatus(await world.get<Configuration>('Configuration', name))?.status
}

/** The condition `BrokersReady` of a Configuration, as soon as it matches. */
export function untilBrokers(
  world: World,
  name: string,
  expected: Partial<Condition>,
): Promise<Condition> {
  return eventually(async () => {
    const conditions = (await summaryOf(world, name))?.conditions ?? []
    const found = conditions.find(({ type }) => type === 'BrokersReady')
    expect(found).toMatchObject(expected)
    return found ?? expect.fail('there is no condition BrokersReady')
  })
}
