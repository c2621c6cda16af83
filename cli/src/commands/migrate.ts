import { parseConfigurationObject } from '@akrijs/api'
import { ApiClient, ApiError, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { InvalidOptionError, printable, systemClock } from '@akrijs/runtime'
import type { ProgramContext } from '@akrijs/runtime/program'
import type { MigrateOptions } from '../command-options.js'
import { MigrationBlockedError, MigrationIncompleteError } from '../errors.js'
import { planBack } from '../migrate/back-plan.js'
import { type ClusterSnapshot, readCluster } from '../migrate/cluster-snapshot.js'
import { planForward } from '../migrate/forward-plan.js'
import { type Finding, type MigrationPlan, titleOf } from '../migrate/migration-plan.js'
import { writeChange } from '../migrate/write-change.js'
import { formatTable } from '../view/table.js'
import { checkDetails } from './configuration-details.js'

const DIRECTIONS = ['check', 'forward', 'back'] as const
type Direction = (typeof DIRECTIONS)[number]

type Print = (line: string) => void

interface Surroundings {
  readonly client: ApiClient
  readonly signal: AbortSignal
  readonly print: Print
  /** @default the built-in handler of the name */
  readonly load?: Parameters<typeof checkDetails>[1]
}

/** `akri migrate`: changes the objects of a cluster between Akri 0.13 and akri.js. */
export async function migrate(
  text: string,
  options: MigrateOptions,
  { signal, closer, log }: Pick<ProgramContext, 'signal' | 'closer' | 'log'>,
): Promise<void> {
  const direction = directionOf(text, options)
  const access = await clusterAccess({ kubeconfig: options.kubeconfig })
  const client = new ApiClient({
    access,
    clock: systemClock,
    userAgent: 'akri-migrate',
    onWarning: warningLogger(log),
  })
  closer.add(() => client.close())
  const print = (line: string) => void process.stdout.write(`${line}\n`)
  await migrateCluster(direction, options, { client, signal, print })
}

/** @throws InvalidOptionError */
export function directionOf(text: string, { write }: Pick<MigrateOptions, 'write'>): Direction {
  const direction = DIRECTIONS.find((each) => each === text)
  if (direction === undefined)
    throw new InvalidOptionError(
      `${JSON.stringify(text)} is no direction; write check, forward or back`,
    )
  if (direction === 'check' && write)
    throw new InvalidOptionError('check writes nothing; use --write with forward or back')
  return direction
}

/**
 * @throws MigrationBlockedError if there is an obstacle
 * @throws MigrationIncompleteError if the API server refused a change
 */
export async function migrateCluster(
  direction: Direction,
  { write, ignoreRunning }: Pick<MigrateOptions, 'write' | 'ignoreRunning'>,
  { client, signal, print, load }: Surroundings,
): Promise<void> {
  const snapshot = await readCluster(client, signal)
  const plans: MigrationPlan[] = []
  if (direction !== 'back') {
    const { changes, findings } = planForward(snapshot)
    const plan = { changes, findings: [...findings, ...(await detailsFindings(snapshot, load))] }
    plans.push(plan)
    print('Forward, from Akri 0.13 to akri.js:')
    printPlan(plan, print)
  }
  if (direction === 'check') print('')
  if (direction !== 'forward') {
    // A check says that agents run; they need not stop for it.
    const plan = planBack(snapshot, { ignoreRunning: ignoreRunning || direction === 'check' })
    plans.push(plan)
    print('Back, from akri.js to Akri 0.13:')
    printPlan(plan, print)
  }
  const obstacles = plans
    .flatMap(({ findings }) => findings)
    .filter(({ level }) => level === 'obstacle').length
  if (obstacles > 0)
    throw new MigrationBlockedError(`${counted(obstacles, 'obstacle')}; nothing was written`)
  if (write) for (const plan of plans) await writePlan(plan, { client, signal, print })
}

function printPlan({ changes, findings }: MigrationPlan, print: Print): void {
  const rows = [
    ...findings.map(({ level, object, text }) => [level, object, text]),
    ...changes.map(({ kind, key, effects }) => ['change', `${kind} ${key}`, effects.join('; ')]),
  ]
  print(rows.length === 0 ? 'nothing to change' : formatTable(['WHAT', 'OBJECT', 'TEXT'], rows))
}

/** Details that mean something else here, such as udev rules. */
async function detailsFindings(
  { configurations }: ClusterSnapshot,
  load: Surroundings['load'],
): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const object of configurations) {
    const parsed = parseConfigurationObject(object)
    if (!parsed.ok) continue
    const { metadata, spec } = parsed.configuration
    for (const { path, message } of await checkDetails(spec, load))
      findings.push({
        level: 'warning',
        object: titleOf('Configuration', metadata),
        text: `${path}: ${message}`,
      })
  }
  return findings
}

async function writePlan({ changes }: MigrationPlan, surroundings: Surroundings): Promise<void> {
  const { client, signal, print } = surroundings
  let failed = 0
  for (const change of changes) {
    try {
      await writeChange(change, client, signal)
    } catch (error) {
      if (!ApiError.is(error)) throw error
      failed++
      print(printable(`${change.kind} ${change.key} was not changed: ${error.answer}`))
    }
  }
  print(`${changes.length - failed} of ${counted(changes.length, 'object')} changed`)
  if (failed > 0)
    throw new MigrationIncompleteError(`${counted(failed, 'change')} failed: run the command again`)
}

function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
