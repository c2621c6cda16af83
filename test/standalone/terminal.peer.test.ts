import { readdirSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, it, vi } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { AkriProgram, root } from './support/akri-program.js'
import { isAlive, processesOf } from './support/processes.js'
import { missingForTerminals, Terminal } from './support/terminal.js'

const missing = missingForTerminals()
const patience = { timeout: 120_000, interval: 50 }

const akri = AkriProgram.ofEachTest()
let terminal: Terminal

afterEach(async () => {
  const all = children()
  terminal.close()
  await terminal.ended
  await until(() => expect(all.filter(isAlive)).toEqual([]))
})

/** debugEcho: it finds no devices while the file `availability` contains OFFLINE. */
async function echo(): Promise<string> {
  const directory = path.join(akri.directory, 'echo')
  await mkdir(directory)
  const akriField = { contract: 1, handlers: [{ name: 'debugEcho' }] }
  const manifest = {
    name: 'own-echo',
    version: '1.0.0',
    type: 'module',
    exports: './echo.js',
    akri: akriField,
  }
  await writeFile(path.join(directory, 'package.json'), JSON.stringify(manifest))
  const built = pathToFileURL(path.join(root, 'handlers/debug-echo/dist/index.js')).href
  const options = { availabilityFile: availability(), intervalMs: 50 }
  await writeFile(
    path.join(directory, 'echo.js'),
    `import { createDebugEcho } from '${built}'
    process.once('SIGURG', () => console.log('the handler speaks'))
    process.once('SIGUSR2', () => { throw new Error('a bug') })
    export default createDebugEcho(${JSON.stringify(options)})`,
  )
  return directory
}

const availability = () => path.join(akri.directory, 'availability')

async function start(
  { term = 'xterm-256color', ...size }: { columns: number; rows: number; term?: string },
  options: readonly string[],
  ...descriptions: readonly string[]
) {
  const configuration = {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: {
      name: 'lab',
      annotations: { 'kubernetes.io/description': `what is in the laboratory${HOSTILE}` },
    },
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: JSON.stringify({ descriptions }) },
      brokerSpec: {
        brokerPodSpec: { containers: [{ name: 'b', command: ['/bin/sh', '-c', BROKER] }] },
      },
    },
  }
  const files = [
    await akri.write('lab.json', JSON.stringify(configuration)),
    await akri.write('bad.yaml', `kind: "${HOSTILE}"`),
  ]
  const command = akri.command(
    ...files.flatMap((file) => ['-f', file]),
    '--handler',
    await echo(),
    ...options,
  )
  // A shell has the terminal before and after.
  terminal = new Terminal(size, [
    ...['env', `TERM=${term}`, '/bin/sh'],
    '-c',
    'trap : INT; echo before; "$@"; code=$?; echo after; exit $code',
    'sh',
    ...command,
  ])
}

/** Control sequences: clear the screen, name the window, report the terminal, turn red, ring. */
const HOSTILE = '\u001b[2J\u001b]0;owned\u0007\u001b[c\u009b31m\u001b[31m\u0007\r\u000b'
const END_KEY = '\u001b[F'
const BROKER =
  `printf '%s\\n' '${HOSTILE}broker speaks'; ` +
  `printf '${'\\033[2Jreported'}' > "$AKRI_BROKER_INFO_DIRECTORY/value"; exec sleep 1000`

const shown = () => terminal.screen.lines.join('\n')
const until = (check: () => void) => vi.waitFor(check, patience)
const untilShown = (text: string | RegExp) => until(() => expect(shown()).toMatch(text))
const children = () => processesOf(terminal.pid).slice(1)
/** The child of the shell. */
const agent = () => children()[1] ?? expect.fail('there is no agent')
const sockets = () =>
  readdirSync(akri.state, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isSocket())
    .map(({ name }) => name)

/** Waits for a complete frame after a change. */
async function redrawnAfter(happens: () => unknown): Promise<void> {
  const frames = () => terminal.raw.split('\u001b[?2026l').length
  const before = frames()
  await happens()
  await until(() => expect(frames()).toBeGreaterThan(before))
}

/** Presses Ctrl-C, and expects the terminal as before the program. */
async function interrupt(): Promise<void> {
  const all = children()
  terminal.type('\u0003')
  expect(await terminal.ended).toBe(0)
  expectTerminalBack()
  expect(all.filter(isAlive)).toEqual([])
  expect(sockets()).toEqual([])
}

function expectTerminalBack(): void {
  const { lines, modes, styled, cursor } = terminal.screen
  expect(lines).toEqual(['before', 'after'])
  expect({ modes: [...modes].sort(), styled, cursor }).toEqual({
    modes: [25, 7],
    styled: false,
    cursor: { column: 0, row: 2 },
  })
}

describeUnless(missing, 'the live view of akri run in a terminal', () => {
  it('R46 R47 shows devices that disappear and return, with their brokers', async () => {
    await start({ columns: 100, rows: 30 }, [], 'foo0', 'foo1')
    await untilShown(/^lab {2}2 devices {2}what is in the laboratory/m)
    await untilShown(/^ {2}lab-8120fe {2}● {2}foo0 {2}broker \d+/m)
    await untilShown(/^ {2}lab-a19705 {2}● {2}foo1 {2}broker \d+/m)
    expect(terminal.screen.lines[0]).toBe(
      'akri  2 instances, handlers debugEcho; keys: ↓ list, / filter, l log, q end',
    )
    expect(terminal.screen.lines[1]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}$/)
    // What a handler prints is a line of the log, within the picture.
    process.kill(agent(), 'SIGURG')
    await untilShown(/text on standard output text="the handler speaks"/)
    const brokers = [...shown().matchAll(/broker (\d+)/g)].map(([, pid]) => Number(pid))
    expect(brokers.filter(isAlive)).toHaveLength(2)
    await writeFile(availability(), 'OFFLINE')
    await untilShown(/^lab {2}0 devices/m)
    expect(shown()).not.toMatch(/^ {2}lab-/m)
    await until(() => expect(brokers.filter(isAlive)).toEqual([]))
    await rm(availability())
    await untilShown(/^ {2}lab-8120fe {2}● {2}foo0 {2}broker \d+/m)
    await interrupt()
    // No control sequence of a description, a broker, a file or a report.
    expect(terminal.screen.strange).toEqual([])
  })

  it.each([[[]], [['--isolated']]])(
    'gives the terminal back at Ctrl-C, and leaves no process and no socket (%j)',
    async (options) => {
      await start({ columns: 80, rows: 24 }, options, 'foo0')
      await untilShown(/broker \d+/)
      expect(terminal.screen.modes).toContain(1049)
      expect(terminal.screen.modes).not.toContain(25)
      expect(sockets()).toContain('control.sock')
      // The shell, the agent, its broker, and with --isolated its handler.
      expect(children()).toHaveLength(3 + options.length)
      await interrupt()
    },
  )

  it('keeps each line within the terminal, however narrow', async () => {
    await start(
      { columns: 24, rows: 12 },
      [],
      'a long description of a device that is somewhere',
      'カメラカメラカメラカメラ',
    )
    await untilShown(/^lab {2}2 devices/m)
    await untilShown(/^ {2}lab-[0-9a-f]{6} {2}● {2}/m)
    expect(terminal.screen.overflow).toBe(0)
    for (const [columns, rows] of [
      [130, 40],
      [40, 12],
      [12, 3],
      [80, 24],
    ] as const) {
      await redrawnAfter(() => terminal.resize(columns, rows))
      // A frame during the change may be too wide; no later frame may be.
      terminal.screen.overflow = 0
      // The agent draws again after SIGCONT.
      await redrawnAfter(() => process.kill(agent(), 'SIGCONT'))
      expect(terminal.screen.overflow).toBe(0)
      expect(terminal.screen.lines[0]).toMatch(/^akri {2}/)
    }
    await untilShown(/^ {2}lab-[0-9a-f]{6} {2}● {2}a long description/m)
    await interrupt()
  })

  it('is a log without control sequences in a terminal that has none', async () => {
    await start({ columns: 80, rows: 24, term: 'dumb' }, [], 'foo0')
    await until(() => expect(terminal.raw).toMatch(/^\[lab-8120fe\] [^\n]*broker speaks/m))
    expect(terminal.raw).not.toContain('\u001b')
    terminal.type('\u0003')
    expect(await terminal.ended).toBe(0)
  })

  it('lists, filters and opens devices by keys, shows the log, and ends by q', async () => {
    await start({ columns: 60, rows: 12 }, [], 'foo0', 'foo1')
    await untilShown(/broker \d+.*broker \d+/s)
    terminal.type('/foo1\r')
    await untilShown(/^devices {2}\/foo1\n▸ {3}lab-a19705 {2}● {2}foo1 {2}broker \d+/)
    terminal.type('\r')
    await untilShown(/^instance lab-a19705\nName: +lab-a19705/)
    terminal.type(END_KEY)
    await untilShown(/^REPORTED +CONTENT\nvalue +.*reported.*Broker: +running \d+/ms)
    terminal.type('l')
    await untilShown(/^log\n.*broker speaks/s)
    expect(terminal.screen.overflow).toBe(0)
    expect(terminal.screen.strange).toEqual([])
    terminal.type('q')
    expect(await terminal.ended).toBe(0)
    expectTerminalBack()
  })

  it('recovers from Ctrl-Z', async () => {
    await start({ columns: 80, rows: 24 }, [], 'foo0')
    await untilShown(/broker \d+/)
    terminal.type('\u001a')
    await until(() => expectTerminalStopped())
    await writeFile(availability(), 'OFFLINE')
    process.kill(agent(), 'SIGCONT')
    await untilShown(/^akri {2}0 instances.*\nhttp.*\n\nlab {2}0 devices/)
    await interrupt()
  })

  it('restores the terminal after a bug, with an error, and leaves no broker', async () => {
    // This terminal does not know its size: the view assumes 80 columns.
    await start({ columns: 0, rows: 0 }, [], 'foo0')
    await untilShown(
      /^akri {2}1 instances, handlers debugEcho; keys: .* q end\nhttp\S+\n\nlab.*broker \d+/s,
    )
    expect(terminal.screen.overflow).toBe(0)
    // Bold.
    expect(terminal.raw).toContain('\u001b[1m')
    const [, , ...brokers] = children()
    expect(brokers).toHaveLength(1)
    process.kill(agent(), 'SIGUSR2')
    expect(await terminal.ended).toBe(1)
    expect(shown()).toMatch(/^before\n.*Error: a bug.*after$/s)
    expect([...terminal.screen.modes].sort()).toEqual([25, 7])
    await until(() => expect(brokers.filter(isAlive)).toEqual([]))
  })

  it('ends with its window, and leaves no process', async () => {
    await start({ columns: 80, rows: 24 }, ['--isolated', '--color', 'never'], 'foo0')
    await untilShown(/broker \d+/)
    expect(terminal.raw).not.toContain('\u001b[1m')
    const all = children()
    terminal.close()
    await until(() => expect(all.filter(isAlive)).toEqual([]))
    expect(sockets()).toEqual([])
  })
})

function expectTerminalStopped(): void {
  expect(terminal.screen.modes).not.toContain(1049)
  expect(terminal.screen.modes).toContain(25)
  expect(shown()).toMatch(/^before/)
}
