import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runOptions } from '../cli/src/command-options.js'
import { lockState } from '../standalone/src/state/state-lock.js'
import { standaloneExamples } from './standalone-examples.mjs'
import { OPTIONS, takenByNpm } from './taken-by-npm.mjs'
import { root } from './workspaces.mjs'

const isRoot = process.getuid() === 0
/** The user who runs `npm start`; root needs no rights, so that another user stands for all. */
const USER = isRoot ? 4711 : process.getuid()
const GROUP = isRoot ? 4711 : process.getgid()
const needsRoot = isRoot ? '' : ' (needs root)'

const SCRIPTS = [
  'scripts/prepare.mjs',
  'scripts/standalone-examples.mjs',
  'scripts/start.mjs',
  'scripts/taken-by-npm.mjs',
  'scripts/workspaces.mjs',
  'cli/src/state-directory.mjs',
  'runtime/src/errors/write-problem.mjs',
  'standalone/src/state/running-agent.mjs',
]
const TSUP = `import { mkdirSync, writeFileSync } from 'node:fs'
mkdirSync(process.cwd() + '/dist')
writeFileSync('dist/akri.js', "console.log('started', ...process.argv.slice(2))\\n")
writeFileSync('dist/metafile-esm.json', '{}')
`

let parent
let clone
let state

beforeEach(() => {
  parent = mkdtempSync(path.join(os.tmpdir(), 'akri-start-'))
  chmodSync(parent, 0o755)
  clone = path.join(parent, 'clone')
  state = path.join(parent, 'state')
  makeClone()
})
afterEach(() => rmSync(parent, { recursive: true, force: true }))

/** The scripts of `npm start`, one package, and stand-ins for tsup, npm and the demo. */
function makeClone() {
  for (const script of SCRIPTS) cpSync(path.join(root, script), path.join(clone, script))
  write('package.json', {
    type: 'module',
    engines: { node: '>=20.0' },
    workspaces: ['cli', 'examples/*'],
    scripts: { start: 'exec node scripts/start.mjs' },
  })
  write('package-lock.json', {})
  write('cli/package.json', { name: 'cli', type: 'module', bin: { akri: './dist/akri.js' } })
  write('cli/tsup.config.ts', '')
  for (const name of ['onvif-snapshot', 'http-sensor']) {
    write(`examples/${name}/package.json`, { name })
    write(`examples/${name}/tsup.config.ts`, '')
  }
  write('scripts/program-config.ts', '')
  write('handlers/details-fields.ts', '')
  write('tsconfig.json', '')
  write('node_modules/tsup/package.json', { type: 'module' })
  write('node_modules/tsup/dist/cli-default.js', TSUP)
  write('node_modules/.bin/.keep', '')
  symlinkSync('../cli', path.join(clone, 'node_modules/cli'))
  write(
    'scripts/demo/demo.mjs',
    "export const startDevices = async (state) => ({ options: ['--demo-of', state] })",
  )
  // npm finds nothing missing.
  writeNpm('const code = 0')
  write('node_modules/.package-lock.json', '')
  write('.cache/prepare.json', { scopes: [] })
  giveTo(clone, USER)
}

function write(file, content) {
  mkdirSync(path.dirname(path.join(clone, file)), { recursive: true })
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  writeFileSync(path.join(clone, file), text)
}

/** An npm that notes its arguments, does something, and ends with `code`. */
function writeNpm(work) {
  const log = JSON.stringify(path.join(parent, 'npm.log'))
  const note = `fs.appendFileSync(${log}, process.argv.slice(2).join(' ') + '\\n')`
  writeFileSync(
    path.join(parent, 'npm.js'),
    `const fs = require('node:fs'); ${note}; ${work}; process.exitCode = code`,
  )
  writeFileSync(path.join(parent, 'npm.log'), '')
  chmodSync(path.join(parent, 'npm.log'), 0o666)
}

function npmCalls() {
  return readFileSync(path.join(parent, 'npm.log'), 'utf8').trim().split('\n')
}

function giveTo(file, user) {
  if (!isRoot) return
  const names = lstatSync(file).isDirectory() ? readdirSync(file) : []
  for (const name of names) giveTo(path.join(file, name), user)
  lchownSync(file, user, user)
}

const env = () => ({
  PATH: process.env.PATH,
  npm_execpath: path.join(parent, 'npm.js'),
  HOME: parent,
})

/** `npm start` of a user. @returns the exit code, and all lines that it prints */
function start({ user = USER, args = [], environment = {} } = {}) {
  const ids = isRoot ? { uid: user, gid: user } : {}
  return resultOf(
    spawnSync(
      process.execPath,
      [path.join(clone, 'scripts/start.mjs'), '--state-dir', state, ...args],
      { ...ids, cwd: clone, encoding: 'utf8', env: { ...env(), ...environment } },
    ),
  )
}

/** The same as root's, in a mount namespace of its own, after some commands. */
function startAfter(commands) {
  const drop = `setpriv --reuid ${USER} --regid ${GROUP} --clear-groups`
  const run = `exec ${drop} ${process.execPath} scripts/start.mjs --state-dir ${state}`
  return resultOf(
    spawnSync('unshare', ['--mount', 'sh', '-ec', `${commands}; cd ${clone}; ${run}`], {
      encoding: 'utf8',
      env: env(),
    }),
  )
}

function resultOf({ status, stdout, stderr }) {
  return { status, lines: `${stderr}${stdout}`.trim().split('\n') }
}

const STARTED = /^started run -f /
const started = (lines) => expect(lines.at(-1)).toMatch(STARTED)

describe('npm start', () => {
  it('writes nothing into a clone that is ready', () => {
    expect(start().lines).toContain('akri: building cli')
    const before = timesIn(clone)
    const { status, lines } = start()
    expect({ status, lines }).toEqual({ status: 0, lines: [expect.stringMatching(STARTED)] })
    expect(timesIn(clone)).toEqual(before)
  })

  it.skipIf(!isRoot)(`works for the owner of a clone that root made ready${needsRoot}`, () => {
    expect(start({ user: 0 }).status).toBe(0)
    expect(lstatSync(path.join(clone, 'cli/dist/akri.js')).mode & 0o777).toBe(0o755)
    const { status, lines } = start()
    expect(status).toBe(0)
    started(lines)
  })

  it.skipIf(!isRoot)(
    `shows the command that repairs a clone that root has built${needsRoot}`,
    () => {
      start({ user: 0 })
      appendFileSync(path.join(clone, 'cli/tsup.config.ts'), '// changed')
      const { status, lines } = start()
      expect(status).toBe(1)
      const command = `chown -R ${USER}:${USER} ${clone}`
      expect(lines).toEqual([
        'akri: building cli',
        expect.stringMatching(`^akri: ${clone}/cli/dist\\S* belongs to root: run sudo ${command}$`),
      ])
      expect(spawnSync('sh', ['-c', command]).status).toBe(0)
      started(start().lines)
    },
  )

  it('reports directories that the user may not write in one line', () => {
    chmodSync(path.join(clone, 'cli'), 0o555)
    const { status, lines } = start()
    chmodSync(path.join(clone, 'cli'), 0o755)
    expect(status).toBe(1)
    expect(lines).toEqual([
      'akri: building cli',
      `akri: this user may not write ${clone}/cli/dist: run chmod -R u+rwX ${clone}`,
    ])
  })

  it.skipIf(!isRoot)(`reports a read-only clone in one line${needsRoot}`, () => {
    const { status, lines } = startAfter(
      `mount --bind ${clone} ${clone}; mount -o remount,bind,ro ${clone}`,
    )
    expect(status).toBe(1)
    expect(lines.at(-1)).toMatch(
      /^akri: the file system of \/\S+ is read-only: use a clone in another directory$/,
    )
    expect(lines.filter((line) => !line.startsWith('akri: '))).toEqual([])
  })

  it.skipIf(!isRoot)(`reports a full disk in one line, and recovers${needsRoot}`, () => {
    const copy = path.join(parent, 'copy')
    const fill = `head -c 8M /dev/zero >${clone}/filler 2>&- || true`
    const { status, lines } = startAfter(
      `cp -a ${clone} ${copy}; mount -t tmpfs -o size=1m,mode=777 tmpfs ${clone}; ` +
        `cp -a ${copy}/. ${clone}; ${fill}`,
    )
    expect(status).toBe(1)
    expect(lines.at(-1)).toMatch(/^akri: the file system of \/\S+ is full: free some space$/)
    expect(lines.filter((line) => !line.startsWith('akri: '))).toEqual([])
    started(start().lines)
  })

  it.each([
    [
      'EROFS',
      'the file system of CLONE/node_modules is read-only: use a clone in another directory',
    ],
    ['ENOSPC', 'the file system of CLONE/node_modules is full: free some space'],
  ])('reports an installation that cannot write in one line: %s', (code, expected) => {
    writeNpm(`const code = process.argv[2] === 'ls' ? 1 : 217; if (code > 1) console.error(
      'npm error code ${code}\\nnpm error path ${clone}/node_modules\\nnpm error errno -30')`)
    const { status, lines } = start()
    expect(status).toBe(1)
    expect(lines).toEqual([
      'akri: installing what npm start needs',
      `akri: ${expected.replace('CLONE', clone)}`,
    ])
  })

  it('shows what npm says about any other failure', () => {
    writeNpm("const code = 1; console.error('npm error code E404')")
    const { status, lines } = start()
    expect(status).toBe(1)
    expect(lines.slice(1)).toEqual([
      'npm error code E404',
      expect.stringMatching(/^akri: installing .* failed: see above$/),
    ])
  })
})

describe('npm start -- --demo', () => {
  it('installs and builds what the demo needs beside what npm start needs, once', () => {
    writeNpm("const code = process.argv[2] === 'ls' ? 1 : 0")
    const { status, lines } = start({ args: ['--demo'] })
    expect(status).toBe(0)
    expect(lines.at(-1)).toMatch(`started run --demo-of ${state} `)
    expect(lines).toContain('akri: building examples/onvif-snapshot')
    expect(lines).not.toContain('akri: building examples/http-sensor')
    expect(npmCalls().filter((call) => call.startsWith('install'))).toEqual([
      expect.stringMatching(/^install --omit=dev --no-save/),
      expect.stringMatching(
        /^install --include=dev --workspace=examples\/onvif-snapshot --workspace=examples\/opcua/,
      ),
    ])
    for (const args of [['--demo'], []]) expect(start({ args }).lines).toHaveLength(1)
    expect(npmCalls()).toHaveLength(4)
  })

  it('keeps the packages of the demo when other packages change', () => {
    start({ args: ['--demo'] })
    writeNpm("const code = process.argv[2] === 'ls' ? 1 : 0")
    write('package-lock.json', { changed: true })
    start()
    expect(npmCalls().filter((call) => call.startsWith('install'))).toHaveLength(2)
  })

  it('starts by npm start --demo too', () => {
    const { lines } = start({ environment: { npm_config_demo: 'true' } })
    expect(lines.at(-1)).toMatch(`started run --demo-of ${state} `)
  })
})

describe('a second npm start', () => {
  it.each([[[]], [['--demo']]])(
    'names the running agent at once, and does no work: %j',
    async (args) => {
      mkdirSync(state)
      const lock = await lockState(state)
      try {
        // Not synchronous: this process answers.
        const child = spawn(
          process.execPath,
          [path.join(clone, 'scripts/start.mjs'), `--state-dir=${state}`, ...args],
          { env: env() },
        )
        let text = ''
        for (const stream of [child.stdout, child.stderr])
          stream.on('data', (chunk) => {
            text += chunk
          })
        const [code] = await once(child, 'close')
        expect(code).toBe(1)
        expect(text).toMatch(
          new RegExp(
            `^akri: another agent uses ${state}: pid ${process.pid} runs since \\S+ \\S+; ` +
              'stop it, or choose another directory with --state-dir\n$',
          ),
        )
      } finally {
        await lock.release()
      }
    },
  )
})

describe('an option of ours that npm takes', () => {
  it('is refused with the right command', () => {
    const environment = { npm_lifecycle_event: 'start', npm_config_plain: 'true' }
    const { status, lines } = start({ environment, args: ['more'] })
    expect(status).toBe(1)
    expect(lines).toEqual([
      'akri: npm takes options for itself if they have no -- before them: ' +
        `write npm start -- --plain --state-dir ${state} more`,
    ])
  })

  it('is refused as npm itself passes it on', () => {
    const { NODE_OPTIONS: _, ...rest } = process.env
    const { npm_execpath: __, ...others } = env()
    const result = spawnSync('npm', ['start', '--state-dir', '/a', '--isolated', '--demo'], {
      cwd: clone,
      encoding: 'utf8',
      env: {
        ...Object.fromEntries(Object.entries(rest).filter(([name]) => !/^npm_/.test(name))),
        ...others,
      },
    })
    expect(result.status).toBe(1)
    expect(result.stderr).toContain('write npm start -- --demo --isolated --state-dir /a\n')
  })

  it.each([
    [
      { npm_config_plain: 'true', npm_config_handler: 'a\n\nb' },
      [],
      ['--handler', 'a', '--handler', 'b', '--plain'],
    ],
    [{ npm_config_ui: '' }, [], ['--no-ui']],
    [{ npm_config_ui: 'true' }, ['8080'], ['--ui', '8080']],
    [{ npm_config_force: 'true' }, ['x.yaml'], ['-f', 'x.yaml']],
    [{ npm_config_force: 'true' }, ['-f', 'x.yaml'], undefined],
    [{ npm_config_loglevel: 'error', npm_config_color: 'always' }, [], undefined],
  ])('is one of akri run: %j %j', (environment, args, expected) => {
    expect(takenByNpm({ npm_lifecycle_event: 'start', ...environment }, args)).toEqual(expected)
    expect(takenByNpm({ npm_lifecycle_event: 'test', ...environment }, args)).toBeUndefined()
  })

  it('can be any but --color, which is an option of npm', () => {
    const flags = Object.keys(runOptions).map((name) =>
      name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    )
    expect([...OPTIONS, 'color'].sort()).toEqual(flags.sort())
  })
})

/** When each file was last changed, also in its mode. */
function timesIn(directory) {
  return readdirSync(directory, { recursive: true })
    .map((name) => `${name} ${lstatSync(path.join(directory, name)).ctimeMs}`)
    .sort()
}

describe('the Configurations of npm start', () => {
  it('are all of examples/standalone on Linux, which has udev', () => {
    expect(standaloneExamples('linux')).toEqual([path.join(root, 'examples/standalone')])
  })

  it.each(['darwin', 'win32'])('find USB devices without udev on %s', (platform) => {
    const files = standaloneExamples(platform).map((file) => path.relative(root, file))
    const ofUdev = ['disks', 'memory-devices', 'network-links', 'usb-devices']
    const others = readdirSync(path.join(root, 'examples/standalone'))
      .filter((name) => !ofUdev.includes(path.parse(name).name))
      .map((name) => `examples/standalone/${name}`)
    expect(files).toEqual([...others, 'examples/usb'])
  })
})
