import {
  type ConfigurationStatus,
  type NodeReport,
  type NodeStatus,
  parseConfigurationStatus,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { expect } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { TestControl } from './control.js'
import { AKRI, CONFIGURATION } from './objects.js'

// For tests of the reports of nodes: one Configuration, and a replica of the controller that leads.

export const REPORTS = '/apis/akri.sh/v0/nodereports'
export const INSTANCES = `${AKRI}/instances`
export const GRACE_MS = 300_000

type Ready = 'True' | 'False' | 'Unknown'

export function statusWith(status: Ready, devices = 1): NodeStatus {
  const condition = { type: 'Ready', status, reason: 'R', message: 'text' } as const
  return { observedGeneration: 3, devices, conditions: [condition] }
}

interface Reported extends Partial<Pick<NodeReport, 'agentPod' | 'agentNamespace'>> {
  /** @default 1 */
  readonly devices?: number
  /** That of the Configuration. */
  readonly uid?: string
}

export class ReportsHarness extends TestControl {
  constructor() {
    super()
    this.api.putConfiguration()
  }

  putNodes(...names: readonly string[]): void {
    for (const name of names) this.api.putNode(name)
  }

  /** @param status of `Ready` on the node, or the whole status */
  putReport(node: string, status: Ready | NodeStatus, reported: Reported = {}): void {
    const { uid = 'uid-cam', devices, ...agent } = reported
    const whole = typeof status === 'string' ? statusWith(status, devices) : status
    this.api.put(`${REPORTS}/${node}`, {
      configurations: { 'plant/cam': { uid, ...whole } },
      ...agent,
    })
  }

  /** The same, and waits until the controller has seen the report. */
  async report(node: string, status: Ready, reported: Reported = {}): Promise<void> {
    this.putReport(node, status, reported)
    const seen = statusWith(status, reported.devices)
    await eventually(() => {
      const found = this.state.reports.cache.list().find(({ metadata }) => metadata.name === node)
      expect(Object.values(found?.configurations ?? {})).toMatchObject([seen])
    })
  }

  /** @returns the name of its Pod */
  putAgent(node: string, isReady: boolean, waiting?: string): string {
    const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'False' }]
    const state = { waiting: waiting === undefined ? undefined : { reason: waiting } }
    const name = `agent-${node}`
    this.api.put(`/api/v1/namespaces/akri/pods/${name}`, {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: node },
      status: { phase: 'Running', conditions, containerStatuses: [{ state }] },
    })
    return name
  }

  /** A node with its agent, whose report has the status of `Ready`. */
  putWorkingNodes(...names: readonly string[]): void {
    this.putNodes(...names)
    for (const name of names) this.putReport(name, 'True', { agentPod: this.putAgent(name, true) })
  }

  removeAgent(node: string): void {
    this.api.remove(`/api/v1/namespaces/akri/pods/agent-${node}`)
  }

  get status(): ConfigurationStatus {
    const parsed = parseConfigurationStatus(this.api.objects.get(CONFIGURATION))
    return parsed?.status ?? expect.fail('there is no status')
  }

  /** The condition `Ready` of the Configuration. */
  get ready() {
    return this.status.conditions.find(({ type }) => type === 'Ready')
  }

  /** The writes of the Configuration. */
  get writes() {
    const { requests } = this.api
    return requests.filter(
      ({ method, path }) => method === 'PATCH' && path.startsWith(CONFIGURATION),
    )
  }

  /** The paths of deleted objects. */
  get deletions(): string[] {
    return this.api.requests.flatMap(({ method, path }) => (method === 'DELETE' ? path : []))
  }

  /** Lets the clock go on until so many writes were sent. */
  untilWritten(count: number): Promise<void> {
    return inSteps(this.clock, () => expect(this.writes).toHaveLength(count), 100)
  }

  /** Lets the clock go on until the condition `Ready` has these fields. */
  untilReady(fields: object, stepMs?: number): Promise<void> {
    return inSteps(this.clock, () => expect(this.ready).toMatchObject(fields), stepMs)
  }

  /** Lets the clock go on until so many nodes count: those that report are ready. */
  untilCounted(reporting: number, silent: number): Promise<void> {
    const counts = { reporting, ready: reporting, silent }
    return inSteps(this.clock, () => expect(this.status.nodeCounts).toEqual(counts))
  }

  /** Lets the clock go on until these objects were deleted. */
  untilDeleted(paths: readonly string[], stepMs: number): Promise<void> {
    return inSteps(this.clock, () => expect(this.deletions).toEqual(paths), stepMs)
  }

  /** Waits until the controller counts the agent of the node so. */
  untilPresent(node: string, presence: string): Promise<void> {
    return eventually(() =>
      expect(this.state.reportIndex.presence(node as NodeName)).toBe(presence),
    )
  }
}
