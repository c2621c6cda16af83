import { execFile, spawn } from 'node:child_process'
import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { openDirectoryToGroup } from './registration-socket.js'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0
const GROUP = 65_520
const [ONVIF, OPCUA, OTHER] = [65_521, 65_522, 65_523]

let directory: string

beforeEach(async () => {
  const parent = await mkdtemp(path.join(os.tmpdir(), 'akri-handlers-'))
  await chmod(parent, 0o755)
  directory = path.join(parent, 'd')
})

afterEach(() => rm(path.dirname(directory), { recursive: true, force: true }))

/** Arguments of setpriv: a user without capabilities, as in a container that drops all. */
const as = (user: number, group: number) => [
  `--reuid=${user}`,
  `--regid=${group}`,
  '--clear-groups',
  '--bounding-set=-all',
]
/** Root without capabilities, in the group. */
const AGENT = ['--groups', String(GROUP), '--bounding-set=-all']
const node = (who: readonly string[], script: string) =>
  run('setpriv', [...who, process.execPath, '-e', script]).then(
    ({ stdout }) => stdout,
    (error: { stderr: string }) => /E[A-Z]{3,}/.exec(error.stderr)?.[0] ?? error.stderr,
  )

describe.skipIf(!isRoot)(
  `the directory of handlers${isRoot ? '' : ' (needs root, for other users)'}`,
  () => {
    /** Serves a socket as that user until the function is called. */
    async function serve(name: string, who: readonly string[]): Promise<() => void> {
      const file = JSON.stringify(path.join(directory, name))
      const script =
        `require('node:net').createServer((s) => s.end('hello')).listen(${file}, ` +
        `() => require('node:fs').chmodSync(${file}, 0o660))`
      const child = spawn('setpriv', [...who, process.execPath, '-e', script], { stdio: 'inherit' })
      await eventually(async () =>
        expect((await stat(path.join(directory, name))).mode & 0o777).toBe(0o660),
      )
      return () => child.kill()
    }
    const connect = (name: string, who: readonly string[]) => {
      const file = JSON.stringify(path.join(directory, name))
      return node(who, `require('node:net').connect(${file}).pipe(process.stdout)`)
    }

    it('lets handlers of its group serve, and remove no socket of others', async () => {
      await openDirectoryToGroup(directory, GROUP)
      const names = ['agent-registration.sock', 'onvif.sock'] as const
      const stops = [await serve(names[0], AGENT), await serve(names[1], as(ONVIF, GROUP))]
      try {
        expect(await connect('onvif.sock', AGENT)).toBe('hello')
        expect(await connect('onvif.sock', as(OTHER, OTHER))).toBe('EACCES')
        for (const name of names) {
          const file = JSON.stringify(path.join(directory, name))
          for (const act of [`unlinkSync(${file})`, `renameSync(${file}, ${file} + '2')`])
            expect(await node(as(OPCUA, GROUP), `require('node:fs').${act}`)).toBe('EPERM')
        }
        const look = `require('node:fs').readdirSync('${directory}')`
        expect(await node(as(OTHER, OTHER), look)).toBe('EACCES')
      } finally {
        for (const stop of stops) stop()
      }
    })
  },
)

it('a directory that cannot be opened to a group is refused with a remedy', async () => {
  await writeFile(directory, '')
  await expect(openDirectoryToGroup(path.join(directory, 'd'), GROUP)).rejects.toThrow(
    'must have supplementalGroups: [65520]',
  )
})
