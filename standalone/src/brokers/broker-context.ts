import type { Problem } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { StandaloneAgent } from '../standalone.js'
import type { BrokerLedger } from './broker-ledger.js'
import type { FinishedJobs } from './finished-jobs.js'

export interface BrokerOptions {
  readonly standalone: Pick<StandaloneAgent, 'kubelet'>
  readonly ledger: BrokerLedger
  readonly finished: FinishedJobs
  readonly clock: Clock
  readonly log: Logger
  readonly environment: Readonly<Record<string, string | undefined>>
  onLine(broker: string, line: string): void
  /** The state of the broker of an Instance changed. */
  onChange(instance: ObjectKey): void
}

export type BrokerState =
  | { readonly phase: 'waiting'; readonly reason: string }
  | { readonly phase: 'running'; readonly pid: number | undefined }
  /** A Job that succeeded. */
  | { readonly phase: 'completed' }
  /** A Job that failed more often than its limit. */
  | { readonly phase: 'failed'; readonly reason: string }
  /** Nothing runs, for this reason. */
  | { readonly phase: 'none'; readonly reason: string }

/** The part of the set that a broker uses. */
export interface BrokerContext {
  /**
   * A number for each run of any broker. The kubelet may still have the previous Pod of a broker
   * when it admits the next.
   */
  nextRun(): number
  /** The capacity of the Instance at present; undefined if the Instance has gone. */
  capacity(): number | undefined
  /** Reports a problem of the Configuration. */
  refuse(problem: Problem): void
  /** Aborted when the agent ends. */
  readonly closing: AbortSignal
  /** The end of the brokers that the Instance had before: two must not use its device. */
  readonly previous: Promise<unknown> | undefined
}
