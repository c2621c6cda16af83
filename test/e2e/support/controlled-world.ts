import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { Account } from './account.js'
import { HostController } from './host-controller.js'
import { isBroker, podsIn } from './made.js'
import { NodeAgents } from './node-agents.js'
import { NODES, setAvailable } from './nodes.js'
import { eventually, World } from './world.js'

/** What a suite works with. */
interface Opened {
  readonly world: World
  readonly controller: HostController
  readonly agents: NodeAgents
}

/**
 * For the tests of a suite: a world with an agent on each node and a controller with the rights of
 * its manifests. It is empty again after each test.
 * @param environment of the controller
 */
export function useController(
  onOpen: (opened: Opened) => void,
  environment: Readonly<Record<string, string>> = {},
  nodes: readonly string[] = NODES,
): void {
  let world: World
  let agents: NodeAgents
  let controller: HostController
  let account: Account | undefined

  beforeAll(async () => {
    await setAvailable(true, nodes)
    world = await World.open()
    agents = await NodeAgents.start(nodes)
    account = await Account.create(world.client, 'controller', world.namespace)
    const env = { KUBECONFIG: account.kubeconfig, ...environment }
    controller = new HostController('one', world.namespace, env)
    await controller.lead()
    onOpen({ world, controller, agents })
  })

  afterEach(async () => {
    await setAvailable(true, nodes)
    // Counts of the past do not matter: the gauge shows the present Pods.
    await eventually(async () =>
      expect(await countedBrokers(controller)).toBe((await podsIn(world)).filter(isBroker).length),
    )
    await world.clear(nodes)
  })

  afterAll(async () => {
    await controller?.stop()
    await agents?.dispose()
    await account?.dispose()
    await world?.close()
  })
}

/** The Pods of the Configuration `cam` in `akri_broker_pod_count`. */
export async function countedBrokers(controller: HostController): Promise<number> {
  const metrics = await controller.metrics()
  const counts = metrics.matchAll(
    /^akri_broker_pod_count\{configuration="cam",node="[^"]*"\} ([0-9]+)$/gm,
  )
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}
