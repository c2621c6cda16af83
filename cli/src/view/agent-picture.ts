import type { StandaloneAgent } from '@akrijs/agent/standalone'
import { type Configuration, type Instance, keyOf } from '@akrijs/kube'
import stringWidth from 'string-width'
import type { BrokerState } from '../brokers/broker.js'
import type { BrokerSet } from '../brokers/broker-set.js'
import { deviceText } from './device-text.js'
import { printable, shorten } from './table.js'

export interface PictureInput {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'problems' | 'handlers'>
  readonly brokers: Pick<BrokerSet, 'state'>
  /** What was logged and what brokers wrote last, oldest first. */
  readonly lines: readonly string[]
  readonly columns: number
  readonly rows: number
}

/** What a Configuration is for, in the words of whoever wrote it: an annotation of Kubernetes' own. */
const DESCRIPTION = 'kubernetes.io/description'

const bold = (text: string) => `\u001b[1m${text}\u001b[22m`
const dim = (text: string) => `\u001b[2m${text}\u001b[22m`
const red = (text: string) => `\u001b[31m${text}\u001b[39m`
const green = (text: string) => `\u001b[32m${text}\u001b[39m`

/** The whole state as lines that fit the terminal. */
export function drawAgent({ standalone, brokers, lines, columns, rows }: PictureInput): string {
  const { cluster, problems, handlers } = standalone
  const instances = cluster.instances.list()
  const head = [
    `${bold('akri')}  ${dim(`${instances.length} instances, handlers ${handlers.map(({ name }) => name).join(', ') || 'none'}; Ctrl-C ends it`)}`,
    '',
  ]
  const blocks = cluster.configurations.list().map((configuration) => {
    const owned = instances.filter(({ spec }) => spec.configurationName === configuration.metadata.name)
    return { configuration, owned }
  })
  // Devices have the greater part of the room.
  const wrong = problems
    .slice(0, Math.max(1, Math.floor(rows / 4)))
    .map(({ file, path, message }) =>
      red(shorten(printable(`${file}${path === '' ? '' : `: ${path}`}: ${message}`), columns - 1)),
    )
  const below = lines.slice(-Math.max(3, Math.min(8, rows - 20))).map((line) => dim(shorten(printable(line), columns - 1)))

  const room = Math.max(1, rows - head.length - wrong.length - below.length - 3)
  const devices = fit(blocks, room, {
    headline: (configuration) => headline(configuration, columns),
    instance: (instance) => drawInstance(instance, brokers, columns),
  })
  return [...head, ...devices, ...(wrong.length > 0 ? ['', ...wrong] : []), '', ...below].join('\n')
}

interface Block {
  readonly configuration: Configuration
  readonly owned: readonly Instance[]
}

/** All blocks if they fit; else of each as much as is fair, and how much is left out. Draws only what is shown. */
function fit(
  blocks: readonly Block[],
  room: number,
  draw: { headline(configuration: Configuration): string; instance(instance: Instance): string },
): string[] {
  const whole = blocks.reduce((sum, { owned }) => sum + owned.length + 1, 0) <= room
  const share = Math.max(2, Math.floor(room / Math.max(1, blocks.length)))
  const lines: string[] = []
  for (const { configuration, owned } of blocks) {
    if (lines.length >= room) break
    lines.push(draw.headline(configuration))
    const shown = whole || owned.length < share ? owned : owned.slice(0, share - 2)
    lines.push(...shown.map(draw.instance))
    const left = owned.length - shown.length
    if (left > 0) lines.push(dim(`    and ${left} more (akri get instances)`))
  }
  return lines.slice(0, room)
}

function headline(configuration: Configuration, columns: number): string {
  const { status, metadata } = configuration
  const wrong = status?.conditions.find((condition) => condition.status === 'False')
  const text =
    wrong !== undefined
      ? `${wrong.reason}: ${wrong.message}`
      : status === undefined
        ? 'starting'
        : `${status.devices} device${status.devices === 1 ? '' : 's'}`
  const room = Math.max(10, columns - stringWidth(metadata.name) - 4)
  const shown = shorten(printable(text), room)
  const about = metadata.annotations?.[DESCRIPTION] ?? ''
  const left = room - stringWidth(shown) - 2
  const description = about === '' || left < 10 ? '' : `  ${dim(shorten(printable(about), left))}`
  return `${bold(metadata.name)}  ${wrong === undefined ? green(shown) : red(shown)}${description}`
}

function drawInstance(instance: Instance, brokers: Pick<BrokerSet, 'state'>, columns: number): string {
  const slots = Object.values(instance.spec.deviceUsage)
  const used = slots.filter((usage) => usage !== '').length
  const dots = slots.length <= 10 ? slots.map((usage) => (usage === '' ? '○' : '●')).join('') : `${used}/${slots.length}`
  const state = brokers.state(keyOf(instance))
  const broker = state === undefined ? '' : `broker ${brokerText(state)}`
  const reported = Object.entries(instance.status?.brokerInfo ?? {}).map(([name, content]) => `${name}=${content.trim()}`)
  const text = [`  ${instance.metadata.name}`, dots, deviceText(instance.spec.brokerProperties), broker, ...reported].join('  ')
  return shorten(printable(text), columns - 1)
}

function brokerText(state: BrokerState): string {
  if (state.phase === 'running') return String(state.pid ?? '')
  return 'reason' in state ? `${state.phase}: ${state.reason}` : state.phase
}
