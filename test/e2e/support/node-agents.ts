import { HostAgent } from './host-agent.js'
import { NODES, type TestNode } from './world.js'

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
