import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ApiServer } from '../../test/e2e/support/api-server.js'
import { workDirectory } from '../../test/e2e/support/node-spaces.js'
import type { World } from '../../test/e2e/support/world.js'

const FLAG = '--audit-'

/** A line of the log, as far as it is read here. */
interface AuditEvent {
  readonly verb: string
  readonly user: { readonly username: string }
  readonly objectRef?: { readonly resource: string; readonly subresource?: string }
  readonly requestReceivedTimestamp: string
}

/** What the API server of the test cluster notes of each request of a service account. */
export class AuditLog {
  readonly #world: World
  readonly #directory = path.join(workDirectory, 'audit')

  private constructor(world: World) {
    this.#world = world
  }

  /** Starts the API server again, with an audit log. */
  static async start(world: World): Promise<AuditLog> {
    const log = new AuditLog(world)
    mkdirSync(log.#directory, { recursive: true })
    const policy = path.join(log.#directory, 'policy.json')
    const accounts = `system:serviceaccounts:${world.namespace}`
    writeFileSync(
      policy,
      JSON.stringify({
        apiVersion: 'audit.k8s.io/v1',
        kind: 'Policy',
        // A watch is answered for minutes: what counts is that it was asked for.
        omitStages: ['ResponseStarted', 'ResponseComplete', 'Panic'],
        rules: [{ level: 'Metadata', userGroups: [accounts] }],
      }),
    )
    const flags = [`${FLAG}policy-file=${policy}`, `${FLAG}log-path=${log.#file}`]
    await new ApiServer().kill((args) => [...args, ...flags])(world)
    return log
  }

  /** Starts the API server again, without an audit log. */
  async end(): Promise<void> {
    const start = new ApiServer().kill((args) => args.filter((arg) => !arg.startsWith(FLAG)))
    await start(this.#world)
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** The number of requests that arrived between two times, by account, verb and resource. */
  requestsBetween(from: number, to: number): (readonly [what: string, count: number])[] {
    const counts = new Map<string, number>()
    for (const line of readFileSync(this.#file, 'utf8').trimEnd().split('\n')) {
      const { verb, user, objectRef, requestReceivedTimestamp } = JSON.parse(line) as AuditEvent
      const at = Date.parse(requestReceivedTimestamp)
      if (at < from || at > to) continue
      const account = user.username.split(':').at(-1)
      const of = [objectRef?.resource, objectRef?.subresource].filter((name) => name !== undefined)
      const what = `${account}: ${verb} ${of.join('/')}`
      counts.set(what, (counts.get(what) ?? 0) + 1)
    }
    return [...counts]
  }

  get #file(): string {
    return path.join(this.#directory, 'requests.log')
  }
}
