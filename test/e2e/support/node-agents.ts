import { afterAll, afterEach, beforeAll } from 'vitest'
import { NodeAgent } from './node-agent.js'
import { NODES, setAvailable } from './nodes.js'
import { World } from './world.js'

/** One agent for each node. */
export class NodeAgents {
  readonly #agents: ReadonlyMap<string, NodeAgent>

  private constructor(agents: ReadonlyMap<string, NodeAgent>) {
    this.#agents = agents
  }

  /** @param env variables of the agent of a node */
  static async start(
    nodes: readonly string[] = NODES,
    env: (node: string) => Readonly<Record<string, string>> = () => ({}),
  ): Promise<NodeAgents> {
    const agents = new Map(
      await Promise.all(
        nodes.map(async (node) => [node, await NodeAgent.create(node, env(node))] as const),
      ),
    )
    await Promise.all(Array.from(agents.values(), (agent) => agent.start()))
    return new NodeAgents(agents)
  }

  get all(): readonly NodeAgent[] {
    return [...this.#agents.values()]
  }

  on(node: string): NodeAgent {
    const agent = this.#agents.get(node)
    if (agent === undefined) throw new TypeError(`there is no agent of ${node}`)
    return agent
  }

  async dispose(): Promise<void> {
    for (const agent of this.all) await agent.dispose()
  }
}

interface AgentsOptions {
  /** Variables of the agent of a node. */
  readonly env?: (node: string) => Readonly<Record<string, string>>
  /**
   * Whether each test goes on with what the tests before it left.
   * @default false
   */
  readonly inTurn?: boolean
}

/**
 * For the tests of a suite: a world with an agent on each node. By default it is empty again after
 * each test.
 */
export function useAgents(
  onOpen: (opened: { readonly world: World; readonly agents: NodeAgents }) => void,
  { env, inTurn = false }: AgentsOptions = {},
): void {
  let world: World
  let agents: NodeAgents

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    agents = await NodeAgents.start(NODES, env)
    onOpen({ world, agents })
  })

  afterEach(async () => {
    await setAvailable(true)
    if (!inTurn) await world.clear()
  })

  afterAll(async () => {
    await agents?.dispose()
    await world?.close()
  })
}
