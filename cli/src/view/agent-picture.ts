import path from 'node:path'
import {
  type Configuration,
  deviceText,
  failureText,
  heldSlots,
  type Instance,
  type Place,
  shortageText,
} from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { firstLine, maskUrls, printable } from '@akrijs/runtime'
import type { BrokerSet, BrokerState, StandaloneAgent } from '@akrijs/standalone'
import stringWidth from 'string-width'
import type { ListedObject } from './screen.js'
import { shorten } from './table.js'

export interface PictureInput {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'problems' | 'handlers' | 'problemPlace'>
  readonly brokers: Pick<BrokerSet, 'state'>
  /** Of the page with the devices; empty if it is not served. */
  readonly address: string
  /** The last lines of the log and of brokers, the oldest first. */
  readonly lines: readonly string[]
  readonly columns: number
  readonly rows: number
  /** Whether keys do something. @default false */
  readonly hasKeys?: boolean
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
export const bold = styled(1, 22)
export const dim = styled(2, 22)
const red = styled(31, 39)
const green = styled(32, 39)

/** The state of the agent as lines that fit the terminal. */
export function drawAgent(input: PictureInput): string[] {
  const { standalone, address, lines, columns, rows, hasKeys = false } = input
  const { cluster, handlers } = standalone
  const keys = hasKeys ? 'keys: ↓ list, / filter, l log, q end' : 'Ctrl-C ends it'
  const about =
    `${cluster.instances.list().length} instances, handlers ` +
    `${handlers.map(({ name }) => name).join(', ') || 'none'}; ${keys}`
  // A part of an address opens nothing.
  const page = address === '' ? [] : [row(columns, dim(address, stringWidth(address)))]
  const head = [row(columns, bold('akri'), dim(about)), ...page.filter((each) => each !== ''), '']
  const problems = drawProblems(input)
  // The log has few rows of its own, and all that are left.
  const kept = Math.max(Math.min(3, Math.floor(rows / 6)), Math.min(8, rows - 21))
  const log = lines.length === 0 ? 0 : Math.min(lines.length, kept) + 1
  const devices = drawDevices(input, Math.max(1, rows - head.length - problems.length - log))
  const above = [...head, ...devices, ...problems]
  const left = Math.max(rows - above.length - 1, kept)
  const logLines = lines.slice(-left).map((text) => row(columns, dim(text)))
  return [...above, ...(logLines.length > 0 ? ['', ...logLines] : [])].slice(0, rows)
}

/** Problems of files in at most a quarter of the rows, with the command that explains them. */
function drawProblems({ standalone: { problems }, columns, rows }: PictureInput): string[] {
  if (problems.length === 0) return []
  const shown = problems.slice(0, Math.max(1, Math.floor(rows / 4) - 2))
  const hidden = problems.length - shown.length
  const more = hidden > 0 ? `  and ${hidden} more` : ''
  const files = problems
    .filter(({ file }) => !file.startsWith('--'))
    .map(({ file }) => nameOf(file))
  const commands = [[...new Set(files)], files.slice(0, 1)]
    .filter((each) => each.length > 0)
    .map((each) => `  akri validate ${each.map(shellWord).join(' ')}`)
  const fitting = commands.find((each) => stringWidth(more + each) < columns) ?? commands.at(-1)
  const below = `${more}${fitting ?? ''}`
  return [
    '',
    ...shown.map(({ file, place, path, message }) =>
      row(columns, red(`${placeText(file, place)}${path && `: ${path}`}: ${firstLine(message)}`)),
    ),
    ...(below === '' ? [] : [row(columns, dim(below))]),
  ]
}

/** Relative to the working directory if that is shorter. */
function nameOf(file: string): string {
  const relative = path.relative('.', file)
  return relative !== '' && relative.length < file.length ? relative : file
}

function placeText(file: string, place: Place | undefined): string {
  return place === undefined ? nameOf(file) : `${nameOf(file)}:${place.line}:${place.column}`
}

function shellWord(word: string): string {
  return /^[\w./@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** A Configuration with its Instances. */
interface Block {
  readonly configuration: Configuration
  readonly owned: readonly Instance[]
  readonly failure: string | undefined
  /** An Instance whose broker cannot run. */
  readonly stuck: Instance | undefined
}

/**
 * A row for each Configuration, then one for its problem, then the Instances, of all Configurations
 * in turn, then the reports that need a row of their own. The last row counts what has no room.
 */
function drawDevices(input: PictureInput, room: number): string[] {
  const blocks = blocksOf(input)
  const whole = fill(input, blocks, room)
  if (whole.more === '') return whole.lines
  const { lines, more } = fill(input, blocks, room - 1)
  return [...lines, row(input.columns, dim(more))]
}

/** An object of the list, with its row. */
export interface ListRow extends ListedObject {
  readonly draw: (columns: number) => string
}

/** Each Configuration and Instance whose texts have all words, in the order of the picture. */
export function listRows(input: Omit<PictureInput, 'columns' | 'rows'>, filter: string): ListRow[] {
  const words = filter.toLowerCase().split(/\s+/)
  const hasWords = (...texts: readonly string[]) => {
    const text = texts.join('\n').toLowerCase()
    return words.every((word) => text.includes(word))
  }
  return blocksOf(input).flatMap(({ configuration, failure, owned }): ListRow[] => {
    const { name, annotations } = configuration.metadata
    const isShown = hasWords(name, failure ?? '', annotations?.[DESCRIPTION] ?? '')
    const instances = owned.filter(({ metadata, spec, status }) =>
      hasWords(
        metadata.name,
        ...Object.values(spec.brokerProperties).map(maskUrls),
        ...Object.values(status?.brokerInfo ?? {}),
      ),
    )
    const draw = (columns: number) => headline(configuration, failure, columns)
    return [
      ...(isShown ? [{ kind: 'configuration', name, draw } as const] : []),
      ...instances.map((instance) => ({
        kind: 'instance' as const,
        name: instance.metadata.name,
        draw: (columns: number) => instanceRows(instance, { ...input, columns })[0] ?? '',
      })),
    ]
  })
}

/** What works comes first, then what fails or starts, then what has no devices. */
function blocksOf({
  standalone: { cluster },
  brokers,
}: Pick<PictureInput, 'standalone' | 'brokers'>): Block[] {
  const isUsed = (instance: Instance) => brokers.state(keyOf(instance))?.phase === 'running'
  const isStuck = (instance: Instance) => cannotRun(brokers.state(keyOf(instance)))
  const usedFirst = (a: Instance, b: Instance) => Number(isUsed(b)) - Number(isUsed(a))
  const instances = cluster.instances.list()
  const blocks = cluster.configurations.list().map((configuration) => {
    const owned = instances
      .filter(({ spec }) => spec.configurationName === configuration.metadata.name)
      .sort(usedFirst)
    return { configuration, owned, failure: failureText(configuration), stuck: owned.find(isStuck) }
  })
  const rank = ({ owned, failure, configuration: { status } }: Block) => {
    if (owned.length > 0) return owned.some(isUsed) ? 0 : 1
    return failure !== undefined || status === undefined ? 2 : 3
  }
  return blocks.sort((a, b) => rank(a) - rank(b))
}

interface Filled {
  readonly lines: string[]
  /** The number of Configurations and Instances without a row; empty if there is none. */
  readonly more: string
}

function fill(input: PictureInput, blocks: readonly Block[], room: number): Filled {
  const { columns } = input
  const shown = blocks
    .slice(0, Math.max(0, room))
    .map((block) => ({ ...block, note: '', rows: [] as string[][] }))
  let left = room - shown.length
  for (const block of shown)
    if ((block.failure ?? block.stuck) !== undefined && left-- > 0)
      block.note = noteOf(input, block)
  const most = shown.reduce((length, { owned }) => Math.max(length, owned.length), 0)
  for (let index = 0; index < most && left > 0; index++) {
    for (const { owned, rows } of shown) {
      const instance = owned[index]
      if (instance !== undefined && left-- > 0) rows.push(instanceRows(instance, input))
    }
  }
  const lines = shown.flatMap(({ configuration, failure, note, rows }) => [
    headline(configuration, failure, columns),
    ...(note === '' ? [] : [row(columns, dim(note))]),
    ...rows.flatMap(([whole = '', ...split]) => (split.length > 0 && left-- > 0 ? split : [whole])),
  ])
  const hidden = [
    counted(blocks.length - shown.length, 'Configuration'),
    counted(
      blocks.reduce((sum, { owned }) => sum + owned.length, 0) -
        shown.reduce((sum, { rows }) => sum + rows.length, 0),
      'Instance',
    ),
  ].filter((each) => each !== '')
  const command = blocks.length > shown.length ? 'configurations' : 'instances'
  const more = hidden.length === 0 ? '' : `and ${hidden.join(', ')} (akri get ${command})`
  return { lines, more }
}

function counted(number: number, noun: string): string {
  return number === 0 ? '' : `${number} more ${noun}${number === 1 ? '' : 's'}`
}

/** The place of a Configuration or a broker that fails, and the command that explains it. */
function noteOf({ standalone }: PictureInput, { configuration, failure, stuck }: Block): string {
  const isBroker = failure === undefined && stuck !== undefined
  const path = isBroker ? 'spec.brokerSpec' : 'metadata.name'
  const { file, place } = standalone.problemPlace(configuration, path) ?? {}
  const where = file === undefined ? '' : `${placeText(file, place)}  `
  const name = isBroker
    ? `instance ${stuck.metadata.name}`
    : `configuration ${configuration.metadata.name}`
  return `    ${where}akri describe ${name}`
}

/** Whether a broker waits for more than its start or a slot. */
function cannotRun(state: BrokerState | undefined): boolean {
  if (state?.phase === 'waiting') return !/^(starting$|for )/.test(state.reason)
  return state?.phase === 'none' || state?.phase === 'failed'
}

function headline(
  configuration: Configuration,
  failure: string | undefined,
  columns: number,
): string {
  const { status, metadata } = configuration
  const count = `${status?.devices} device${status?.devices === 1 ? '' : 's'}`
  const shortage = shortageText(configuration)
  const room = columns - 3 - stringWidth(printable(metadata.name))
  const devices =
    status === undefined ? 'starting' : shortage === undefined ? count : wholeParts(shortage, room)
  const about = metadata.annotations?.[DESCRIPTION] ?? ''
  const state = failure === undefined ? green(devices) : red(failure)
  return row(columns, bold(metadata.name), state, dim(about, 10))
}

/** The first parts of a message that fit. `akri describe` has all of them. */
function wholeParts(message: string, room: number): string {
  if (stringWidth(message) <= room) return message
  // With a reason after them, these say nothing more.
  const text = message
    .replace('; the handler saw none;', ';')
    .replace(/(\d+) not offered: \1 x /, '$1 not offered: ')
  const ends = [...text.matchAll(/; |, |: | \(| of rule |$/g)]
  const starts = ends.map(({ index }) => text.slice(0, index))
  return starts.findLast((start) => stringWidth(start) <= room) ?? message
}

/** The parts side by side, as far as they fit. */
export function row(columns: number, ...parts: readonly Part[]): string {
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

/** @returns the row; two more if reports do not fit: the device, and its reports */
function instanceRows(
  instance: Instance,
  { brokers, columns }: Pick<PictureInput, 'brokers' | 'columns'>,
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
  return reported !== '' && stringWidth(printable(line)) >= columns
    ? [plain(line), plain(device), plain(`      ${reported}`)]
    : [plain(line)]
}

function brokerText(state: BrokerState): string {
  if (state.phase === 'running') return String(state.pid ?? '')
  return 'reason' in state ? `${state.phase}: ${firstLine(state.reason)}` : state.phase
}
