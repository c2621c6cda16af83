import { setMaxListeners } from 'node:events'
import { type ApiClient, listPages, PODS, Resource } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import { type ClusterFacts, type PodFacts, podFacts, readFacts } from '../explain/cluster-facts.js'
import { type ClusterSnapshot, readCluster } from '../migrate/cluster-snapshot.js'
import type { ClusterObjects } from '../objects/cluster-objects.js'
import { PROGRAMS, type Program } from './program-rights.js'

/** A Pod of a program of akri.js. */
export interface ProgramPod extends PodFacts {
  readonly program: Program
  /** Its service account. */
  readonly account: string
}

/** The objects of one list, as kubectl asks for them. */
const PAGE = 500

/** A cluster that `akri doctor` examines. What several checks need is read once. */
export class ExaminedCluster {
  /** Those of all namespaces. */
  readonly objects: ClusterObjects
  /** Of this machine, in milliseconds. */
  readonly wallMs: () => number
  readonly #read = new Map<string, Promise<unknown>>()

  constructor(objects: ClusterObjects, wallMs: () => number) {
    this.objects = objects.in('')
    // A listener for each request under way.
    setMaxListeners(0, objects.signal)
    this.wallMs = wallMs
  }

  get client(): ApiClient {
    return this.objects.client
  }

  facts(): Promise<ClusterFacts> {
    return this.#once('facts', () => readFacts(this.client, '', this.objects.signal))
  }

  snapshot(): Promise<ClusterSnapshot> {
    return this.#once('snapshot', () => readCluster(this.client, this.objects.signal))
  }

  /** The Pods of agents, controllers and webhooks. */
  programs(): Promise<readonly ProgramPod[]> {
    const ofProgram = async (program: Program) => {
      const labelSelector = `app.kubernetes.io/name=${program}`
      const pods = await this.list(new Resource(this.client, PODS).path(), { labelSelector })
      return pods.flatMap((object) => {
        const facts = podFacts(object)
        const account = valueAt(object, 'spec', 'serviceAccountName')
        return facts === undefined ? [] : { ...facts, program, account: String(account) }
      })
    }
    return this.#once('programs', async () => (await Promise.all(PROGRAMS.map(ofProgram))).flat())
  }

  /** @throws ApiError, ApiUnreachableError */
  get(path: string): Promise<unknown> {
    return this.client.request({ method: 'GET', path, signal: this.objects.signal })
  }

  /** @throws ApiError, ApiUnreachableError */
  async list(path: string, query: Readonly<Record<string, string>> = {}): Promise<unknown[]> {
    const { client, signal } = this.objects
    const found: unknown[] = []
    for await (const page of listPages({ client, path, query, pageSize: PAGE }, undefined, signal))
      found.push(...page.objects)
    return found
  }

  #once<T>(name: string, read: () => Promise<T>): Promise<T> {
    const before = this.#read.get(name) as Promise<T> | undefined
    const reading = before ?? read()
    this.#read.set(name, reading)
    return reading
  }
}
