// The time between a plug and the resource on the Node of a real Kubernetes: a network link comes
// and goes, by the kernel's real events. Needs root.

import { execFileSync } from 'node:child_process'
import { performance } from 'node:perf_hooks'
import { systemClock } from '@akrijs/runtime'
import { NodeAgent } from '../../test/e2e/support/node-agent.js'
import { missingHere, NODE_1 } from '../../test/e2e/support/nodes.js'
import { eventually, podYaml, World } from '../../test/e2e/support/world.js'
import { openBarePlugins } from './bare-plugins.js'
import { type Figure, percentile } from './table.mjs'

const NODE = NODE_1
const CONFIGURATION = 'plug'
/** The first round is not measured: the agent starts. */
const ROUNDS = 16
/** A faster look would take CPU time from the agent and the API server. */
const LOOK_MS = 5
const LIMIT_MS = 60_000
/** The existing system polls every 10 s: a plug waits 5 s on average. */
const POLLING_MS = 10_000
/**
 * A sysfs shows the links of the network namespace in which it was mounted. That of the bench can
 * be another than that of the machine.
 */
const OWN_SYSFS = ['unshare', '--mount', 'sh', '-c', 'mount -t sysfs none /sys && exec "$@"', 'sh']

/** Empty if there is no Kubernetes for tests. */
export async function measure(): Promise<Figure[]> {
  const lacks = process.getuid?.() === 0 ? missingHere() : 'needs root'
  if (lacks !== undefined) {
    process.stdout.write(`without the plug in a cluster: ${lacks}\n`)
    return []
  }
  const world = await World.open()
  const agent = await NodeAgent.create(
    NODE,
    { NODE_OPTIONS: '--max-semi-space-size=2', LOG_LEVEL: 'warn' },
    { prefix: OWN_SYSFS },
  )
  await agent.start()
  try {
    return await measurePlug(world)
  } catch (error) {
    process.stderr.write(await agent.output())
    throw error
  } finally {
    await world.close()
    await agent.dispose()
  }
}

async function measurePlug(world: World): Promise<Figure[]> {
  const instances: number[] = []
  const resources: number[] = []
  const bare: number[] = []
  const untilInstances = (count: number) =>
    until(async () => (await world.instances()).length === count)
  const untilOffered = (resource: string, count: number) =>
    until(async () => ((await world.allocatable(NODE, resource)) ?? 0) === count)
  const plug = new Plug(`akrc${process.pid % 10_000}`)
  await world.apply(udevYaml(plug.link))
  try {
    for (let round = 0; round < ROUNDS; round++) {
      plug.add()
      // The kernel has sent its event by now; the time of `ip` itself does not count.
      const added = performance.now()
      await untilInstances(1)
      const instanceMs = performance.now() - added
      const instance = `akri.sh/${(await world.instances())[0]?.metadata.name}`
      await untilOffered(instance, 1)
      const resourceMs = performance.now() - added
      if (round > 0) {
        instances.push(instanceMs)
        resources.push(resourceMs)
      }
      if (round === ROUNDS - 1) await allocate(world, instance)
      plug.remove()
      await untilInstances(0)
      await untilOffered(instance, 0)

      const begun = performance.now()
      const plugins = await openBarePlugins(NODE, 1, ['device'])
      const [resource = ''] = plugins.resources
      await untilOffered(resource, 1)
      bare.push(performance.now() - begun)
      plugins.close()
      await untilOffered(resource, 0)
    }
  } finally {
    plug.remove()
  }
  const polling = { name: 'polling every 10 s', value: POLLING_MS / 2 }
  const peer = (share: number) => ({ name: 'a bare plugin', value: percentile(bare, share) })
  const figure = (what: string, value: number, budget: number) => ({
    what,
    value,
    unit: 'ms',
    budget,
  })
  return [
    {
      ...figure('plug to Instance in a cluster, median', percentile(instances, 0.5), 100),
      peer: polling,
    },
    {
      ...figure('plug to resource on the Node, median', percentile(resources, 0.5), 3000),
      peer: peer(0.5),
    },
    {
      ...figure('plug to resource on the Node, slowest', Math.max(...resources), 5000),
      peer: peer(1),
    },
  ]
}

/** A network link that comes and goes. */
class Plug {
  readonly link: string
  #isThere = false

  constructor(link: string) {
    this.link = link
  }

  add(): void {
    execFileSync('ip', ['link', 'add', this.link, 'type', 'veth', 'peer', 'name', `${this.link}x`])
    this.#isThere = true
  }

  remove(): void {
    if (this.#isThere) execFileSync('ip', ['link', 'del', this.link])
    this.#isThere = false
  }
}

/** A Pod gets the device, so the kubelet does allocate it. */
async function allocate(world: World, resource: string): Promise<void> {
  await world.apply(podYaml('plugged', { [resource]: 1 }, { node: NODE }))
  await eventually(() => world.running('plugged'))
  await world.remove('Pod', 'plugged')
  await eventually(async () => {
    if ((await world.get('Pod', 'plugged')) !== undefined) throw new Error('the Pod is there')
  })
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + LIMIT_MS
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`a step took more than ${LIMIT_MS / 1000} s`)
    await systemClock.sleep(LOOK_MS)
  }
}

function udevYaml(link: string): string {
  const details = { udevRules: [`SUBSYSTEM=="net", KERNEL=="${link}"`] }
  return JSON.stringify({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: CONFIGURATION },
    spec: {
      discoveryHandler: { name: 'udev', discoveryDetails: JSON.stringify(details) },
      capacity: 1,
    },
  })
}
