import type { Configuration, Instance } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import type { BrokerSet, BrokerState, StandaloneAgent } from '@akrijs/standalone'
import stringWidth from 'string-width'
import { deviceText } from './device-text.js'
import { firstLine, printable, shorten } from './table.js'

export interface PictureInput {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'problems' | 'handlers'>
  readonly brokers: Pick<BrokerSet, 'state'>
  /** The last lines of the log and of brokers, the oldest first. */
  readonly lines: readonly string[]
  readonly columns: number
  readonly rows: number
}

/** The annotation of Kubernetes with the purpose of a Configuration. */
const DESCRIPTION = 'kubernetes.io/description'

const bold = (text: string) => `\u001b[1m${text}\u001b[22m`
const dim = (text: string) => `\u001b[2m${text}\u001b[22m`
const red = (text: string) => `\u001b[31m${text}\u001b[39m`
const plain = (text: string) => text
const green = (text: string) => `\u001b[32m${text}\u001b[39m`

/** The state of the agent as lines that fit the terminal. */
export function drawAgent({ standalone, brokers, lines, columns, rows }: PictureInput): string[] {
  const { cluster, problems, handlers } = standalone
  const instances = cluster.instances.list()
  const about = `${instances.length} instances, handlers ${handlers.map(({ name }) => name).join(', ') || 'none'}; Ctrl-C ends it`
  const head = [
    row(
      [
        { text: 'akri', style: bold },
        { text: about, style: dim },
      ],
      columns,
    ),
    '',
  ]
  const blocks = cluster.configurations.list().map((configuration) => {
    const owned = instances.filter(
      ({ spec }) => spec.configurationName === configuration.metadata.name,
    )
    return { configuration, owned }
  })
  // Devices have most of the room.
  const problemLines = problems
    .slice(0, Math.max(1, Math.floor(rows / 4)))
    .map(({ file, path, message }) =>
      row(
        [{ text: `${file}${path === '' ? '' : `: ${path}`}: ${firstLine(message)}`, style: red }],
        columns,
      ),
    )
  const kept = Math.max(Math.min(3, Math.floor(rows / 6)), Math.min(8, rows - 20))
  const logLines = lines
    .slice(Math.max(0, lines.length - kept))
    .map((text) => row([{ text, style: dim }], columns))
  const below = [problemLines, logLines].flatMap((part) => (part.length > 0 ? ['', ...part] : []))

  const room = Math.max(1, rows - head.length - below.length)
  const devices = fit(blocks, room, {
    headline: (configuration) => headline(configuration, columns),
    left: (count) =>
      row([{ text: `    and ${count} more (akri get instances)`, style: dim }], columns),
    instance: (instance) => drawInstance(instance, brokers, columns),
  })
  return [...head, ...devices, ...below].slice(0, rows)
}

interface Block {
  readonly configuration: Configuration
  readonly owned: readonly Instance[]
}

/** All blocks if they fit; else an equal share of each, and the number of hidden Instances. */
function fit(
  blocks: readonly Block[],
  room: number,
  draw: {
    headline(configuration: Configuration): string
    instance(instance: Instance): string
    left(count: number): string
  },
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
    if (left > 0) lines.push(draw.left(left))
  }
  return lines.slice(0, room)
}

function headline(configuration: Configuration, columns: number): string {
  const { status, metadata } = configuration
  const failed = status?.conditions.find((condition) => condition.status === 'False')
  const text =
    failed !== undefined
      ? `${failed.reason}: ${firstLine(failed.message)}`
      : status === undefined
        ? 'starting'
        : `${status.devices} device${status.devices === 1 ? '' : 's'}`
  const about = metadata.annotations?.[DESCRIPTION] ?? ''
  return row(
    [
      { text: metadata.name, style: bold },
      { text, style: failed === undefined ? green : red },
      { text: about, style: dim, least: 10 },
    ],
    columns,
  )
}

interface Part {
  readonly text: string
  readonly style: (text: string) => string
  /** The least useful width, in columns. @default 1 */
  readonly least?: number
}

/** The parts side by side, as far as they fit. */
function row(parts: readonly Part[], columns: number): string {
  const shown: string[] = []
  let left = columns - 1
  for (const { text, style, least = 1 } of parts) {
    if (text === '' || left < least) continue
    const part = shorten(printable(text), left)
    shown.push(style(part))
    left -= stringWidth(part) + 2
  }
  return shown.join('  ')
}

function drawInstance(
  instance: Instance,
  brokers: Pick<BrokerSet, 'state'>,
  columns: number,
): string {
  const slots = Object.values(instance.spec.deviceUsage)
  const used = slots.filter((usage) => usage !== '').length
  const dots =
    slots.length <= 10
      ? slots.map((usage) => (usage === '' ? '○' : '●')).join('')
      : `${used}/${slots.length}`
  const state = brokers.state(keyOf(instance))
  const broker = state === undefined ? '' : `broker ${brokerText(state)}`
  const reported = Object.entries(instance.status?.brokerInfo ?? {}).map(
    ([name, content]) => `${name}=${content.trim()}`,
  )
  const text = [
    `  ${instance.metadata.name}`,
    dots,
    deviceText(instance.spec.brokerProperties),
    broker,
    ...reported,
  ].join('  ')
  return row([{ text, style: plain }], columns)
}

function brokerText(state: BrokerState): string {
  if (state.phase === 'running') return String(state.pid ?? '')
  return 'reason' in state ? `${state.phase}: ${firstLine(state.reason)}` : state.phase
}
