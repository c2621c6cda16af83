import { rm } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { HostAgent } from './host-agent.js'
import { AVAILABILITY_FILE, NODES, type TestNode, World } from './world.js'

/** One agent for each node. */
export class NodeAgents {
  readonly #agents: ReadonlyMap<TestNode, HostAgent>

  private constructor(agents: ReadonlyMap<TestNode, HostAgent>) {
    this.#agents = agents
  }

  static async start(): Promise<NodeAgents> {
    const agents = new Map(await Promise.all(NODES.map(async (node) => [node, await HostAgent.create(node)] as const)))
    for (const agent of agents.values()) agent.start()
    return new NodeAgents(agents)
  }

  get all(): readonly HostAgent[] {
    return [...this.#agents.values()]
  }

  on(node: TestNode): HostAgent {
    const agent = this.#agents.get(node)
    if (agent === undefined) throw new TypeError(`there is no agent of ${node}`)
    return agent
  }

  async dispose(): Promise<void> {
    for (const agent of this.all) await agent.dispose()
  }
}

/** For the tests of a suite: a world with an agent on each node, which is empty again after each test. */
export function useAgents(onOpen: (opened: { readonly world: World; readonly agents: NodeAgents }) => void): void {
  let world: World
  let agents: NodeAgents

  beforeAll(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    world = await World.open()
    agents = await NodeAgents.start()
    onOpen({ world, agents })
  }, 120_000)

  afterEach(async () => {
    await rm(AVAILABILITY_FILE, { force: true })
    await world.clear()
  }, 120_000)

  afterAll(async () => {
    await agents?.dispose()
    await world?.close()
  }, 120_000)
}
