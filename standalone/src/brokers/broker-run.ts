import { GROUP, type Instance } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { aborted, kindOf, messageOf } from '@akrijs/runtime'
import { retry } from '../retry.js'
import { type BrokerCommand, brokerEnvironment, expand, withoutMounts } from './broker-command.js'
import type { BrokerContext, BrokerOptions, BrokerState } from './broker-context.js'
import { type BrokerEnd, BrokerProcess } from './broker-process.js'

interface BrokerRunOptions extends BrokerOptions {
  readonly instance: Instance['metadata']
  readonly context: BrokerContext
  readonly signal: AbortSignal
  setState(state: BrokerState): void
}

/** The end of a run. */
interface BrokerRunEnd extends BrokerEnd {
  /** How long the process ran, in milliseconds. */
  readonly ranMs: number
}

/** A broker that waits longer for a slot logs a warning, in milliseconds. */
const LONG_WAIT_MS = 5000

const STOPPED = { succeeded: false, reason: 'stopped', ranMs: 0 }

/** Runs a broker once: takes slots as a Pod does, runs the process, and frees the slots. */
export async function runBroker(
  command: BrokerCommand,
  options: BrokerRunOptions,
): Promise<BrokerRunEnd> {
  const { instance, context, clock, environment, signal, onLine } = options
  const { kubelet } = options.standalone
  const { container, at, file, args, env, workingDirectory, resources } = command
  const uid = `${instance.name}-pod-${context.nextRun()}`
  let startedAt = clock.monotonicMs()
  try {
    await waitForSlots(command, options)
    if (signal.aborted) return STOPPED
    const admitted = await kubelet.admit({
      uid,
      name: `${instance.name}-pod`,
      namespace: instance.namespace,
      containers: [{ name: container, resources }],
    })
    if (signal.aborted) return STOPPED
    const allocation = admitted.get(container)
    const allocated = allocation === undefined ? {} : withoutMounts(allocation)
    const processEnv = brokerEnvironment(allocated, env, environment)
    startedAt = clock.monotonicMs()
    const process = new BrokerProcess({
      file: expand(file, processEnv),
      args: args.map((arg) => expand(arg, processEnv)),
      env: processEnv,
      workingDirectory,
      clock,
      onLine: (line) => onLine(instance.name, line),
    })
    const end = await endOf(process, options)
    if (end.field !== undefined) context.refuse({ path: `${at}.${end.field}`, message: end.reason })
    return { ...end, ranMs: clock.monotonicMs() - startedAt }
  } catch (error) {
    const ranMs = clock.monotonicMs() - startedAt
    if (kindOf(error) === 'bug')
      options.log.error({ broker: instance.name, err: error }, 'broker failed')
    return { succeeded: false, reason: messageOf(error), ranMs }
  } finally {
    kubelet.remove(uid)
  }
}

/** Waits until a process has ended, and stops it when the signal is aborted. */
async function endOf(
  process: BrokerProcess,
  { ledger, clock, log, instance, context, signal, setState }: BrokerRunOptions,
): Promise<BrokerEnd> {
  const { pid } = process
  const over = new AbortController()
  let recorded = Promise.resolve()
  try {
    if (pid !== undefined) {
      recorded = retry(() => ledger.add(pid, objectKey(instance.namespace, instance.name)), {
        clock,
        signal: over.signal,
        onFailure: (fields) =>
          log.warn(
            { broker: instance.name, file: ledger.file, pid, ...fields },
            'broker not recorded: if this agent is killed now, the next agent does not end ' +
              'the broker',
          ),
      })
      setState({ phase: 'running', pid })
      log.info({ broker: instance.name, pid }, 'broker started')
    }
    return await Promise.race([process.ended, aborted(signal, over.signal).then(() => STOPPED)])
  } finally {
    over.abort()
    const isGone = await process.stop({
      abandon: context.closing,
      onStubborn: () => {
        const reason = `process ${pid} cannot be ended; does it run as another user?`
        setState({ phase: 'waiting', reason })
        log.warn({ broker: instance.name, pid, reason }, 'broker keeps its slots until it ends')
      },
    })
    await recorded
    if (pid !== undefined && isGone) ledger.remove(pid)
  }
}

/** Waits as a Pod waits for a node that has the resources. */
async function waitForSlots(command: BrokerCommand, options: BrokerRunOptions): Promise<void> {
  const { instance, clock, log, signal, setState } = options
  const { kubelet } = options.standalone
  const missing = () =>
    Object.entries(command.resources)
      .map(([resource, wanted]) => ({ resource, wanted, ...kubelet.resource(resource) }))
      .find(({ wanted, allocatable, allocated }) => allocatable - allocated < wanted)
  let shortage = missing()
  if (shortage === undefined) return
  const over = new AbortController()
  const warning = clock.sleep(LONG_WAIT_MS, over.signal).then(
    () => {
      if (shortage === undefined) return
      const { capacity: _capacity, ...fields } = shortage
      log.warn({ broker: instance.name, ...fields }, 'broker waits for a slot')
    },
    () => {
      // The wait was short.
    },
  )
  for (; shortage !== undefined && !signal.aborted; shortage = missing()) {
    setState({ phase: 'waiting', reason: `for ${shortage.wanted} of ${shortage.resource}` })
    checkCapacity(command, shortage, options)
    const changed = new AbortController()
    const change = new Promise<void>((resolve) => kubelet.onChange(resolve, changed.signal))
    await Promise.race([change, aborted(signal, changed.signal)])
    changed.abort()
  }
  over.abort()
  await warning
}

/** A broker that asks for more slots than the device has waits for ever. */
function checkCapacity(
  { resourcesAt }: BrokerCommand,
  { resource, wanted }: { readonly resource: string; readonly wanted: number },
  { instance, context }: BrokerRunOptions,
): void {
  const path = resourcesAt[resource]
  const capacity = context.capacity()
  if (path === undefined || capacity === undefined) return
  if (resource !== `${GROUP}/${instance.name}` || wanted <= capacity) return
  const message =
    `${wanted} is more than spec.capacity, which is ${capacity}: such a broker can never run; ` +
    'ask for less, or raise spec.capacity'
  context.refuse({ path, message })
}
