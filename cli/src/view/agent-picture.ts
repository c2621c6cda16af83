import { type Configuration, heldSlots, type Instance } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { maskUrls, printable } from '@akrijs/runtime'
import type { BrokerSet, BrokerState, StandaloneAgent } from '@akrijs/standalone'
import stringWidth from 'string-width'
import { deviceText, failureText, shortageText } from './object-text.js'
import { firstLine, shorten } from './table.js'

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

interface Part {
  readonly text: string
  /** The least useful width, in columns. */
  readonly least: number
  readonly style: (text: string) => string
}

/** Makes a part with the style of two SGR codes of the terminal. */
const styled =
  (on: number, off: number) =>
  (text: string, least = 1): Part => ({
    text,
    least,
    style: (shown) => `\u001b[${on}m${shown}\u001b[${off}m`,
  })
const bold = styled(1, 22)
const dim = styled(2, 22)
const red = styled(31, 39)
const green = styled(32, 39)

/** The state of the agent as lines that fit the terminal. */
export function drawAgent(input: PictureInput): string[] {
  const { standalone, lines, columns, rows } = input
  const { cluster, problems, handlers } = standalone
  const about =
    `${cluster.instances.list().length} instances, handlers ` +
    `${handlers.map(({ name }) => name).join(', ') || 'none'}; Ctrl-C ends it`
  const head = [row(columns, bold('akri'), dim(about)), '']
  // Devices have most of the room.
  const problemLines = problems
    .slice(0, Math.max(1, Math.floor(rows / 4)))
    .map(({ file, place, path, message }) => {
      const where = place === undefined ? file : `${file}:${place.line}:${place.column}`
      return row(columns, red(`${where}${path === '' ? '' : `: ${path}`}: ${firstLine(message)}`))
    })
  const kept = Math.max(Math.min(3, Math.floor(rows / 6)), Math.min(8, rows - 20))
  const logLines = lines
    .slice(Math.max(0, lines.length - kept))
    .map((text) => row(columns, dim(text)))
  const below = [problemLines, logLines].flatMap((part) => (part.length > 0 ? ['', ...part] : []))
  const devices = drawDevices(input, Math.max(1, rows - head.length - below.length))
  return [...head, ...devices, ...below].slice(0, rows)
}

/**
 * All Configurations and Instances if they fit, with a second line for long reports if that fits
 * too; else an equal share for each Configuration, with
 * the number of its hidden Instances.
 */
function drawDevices({ standalone, brokers, columns }: PictureInput, room: number): string[] {
  const configurations = standalone.cluster.configurations.list()
  const instances = standalone.cluster.instances.list()
  const blocks = configurations.map((configuration) => ({
    configuration,
    owned: instances.filter(({ spec }) => spec.configurationName === configuration.metadata.name),
  }))
  const isWhole = blocks.reduce((sum, { owned }) => sum + owned.length + 1, 0) <= room
  const share = isWhole ? Number.POSITIVE_INFINITY : Math.max(2, Math.floor(room / blocks.length))
  const lines = (isRoomy: boolean) =>
    blocks.flatMap(({ configuration, owned }) => {
      const shown = owned.length < share ? owned : owned.slice(0, share - 2)
      const hidden = owned.length - shown.length
      return [
        headline(configuration, columns),
        ...shown.flatMap((instance) => drawInstance(instance, brokers, columns, isRoomy)),
        ...(hidden > 0 ? [row(columns, dim(`    and ${hidden} more (akri get instances)`))] : []),
      ]
    })
  const roomy = isWhole ? lines(true) : []
  return isWhole && roomy.length <= room ? roomy : lines(false).slice(0, room)
}

function headline(configuration: Configuration, columns: number): string {
  const { status, metadata } = configuration
  const failure = failureText(configuration)
  const count = `${status?.devices} device${status?.devices === 1 ? '' : 's'}`
  const devices = status === undefined ? 'starting' : (shortageText(configuration) ?? count)
  const about = metadata.annotations?.[DESCRIPTION] ?? ''
  const state = failure === undefined ? green(devices) : red(failure)
  return row(columns, bold(metadata.name), state, dim(about, 10))
}

/** The parts side by side, as far as they fit. */
function row(columns: number, ...parts: readonly Part[]): string {
  const shown: string[] = []
  let left = columns - 1
  for (const { text, least, style } of parts) {
    if (text === '' || left < least) continue
    const part = shorten(printable(maskUrls(text)), left)
    shown.push(style(part))
    left -= stringWidth(part) + 2
  }
  return shown.join('  ')
}

/** @param isRoomy whether reports that do not fit have a line of their own */
function drawInstance(
  instance: Instance,
  brokers: Pick<BrokerSet, 'state'>,
  columns: number,
  isRoomy: boolean,
): string[] {
  const slots = Object.values(instance.spec.deviceUsage)
  const dots =
    slots.length <= 10
      ? slots.map((usage) => (usage === '' ? '○' : '●')).join('')
      : `${heldSlots(instance.spec.deviceUsage)}/${slots.length}`
  const state = brokers.state(keyOf(instance))
  const broker = state === undefined ? '' : `broker ${brokerText(state)}`
  const reported = Object.entries(instance.status?.brokerInfo ?? {})
    .map(([name, content]) => `${name}=${content.trim()}`)
    .join('  ')
  const device = [
    `  ${instance.metadata.name}`,
    dots,
    deviceText(instance.spec.brokerProperties),
    broker,
  ]
    .filter((part) => part !== '')
    .join('  ')
  const line = reported === '' ? device : `${device}  ${reported}`
  const plain = (text: string) => row(columns, { text, least: 1, style: (shown: string) => shown })
  return isRoomy && reported !== '' && stringWidth(printable(line)) >= columns
    ? [plain(device), plain(`      ${reported}`)]
    : [plain(line)]
}

function brokerText(state: BrokerState): string {
  if (state.phase === 'running') return String(state.pid ?? '')
  return 'reason' in state ? `${state.phase}: ${firstLine(state.reason)}` : state.phase
}
